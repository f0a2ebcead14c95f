package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"cutwater/cluster/metadata/replicated"
	"cutwater/node"
	"cutwater/storage/vfs"
)

// recoverJSON is the output of recover -o json: what the node's log holds.
type recoverJSON struct {
	Node string `json:"node"`
	// Cluster is the name of the cluster, ClusterID its id, NewClusterID that which it
	// has now; the last is empty if nothing was changed.
	Cluster      string `json:"cluster"`
	ClusterID    string `json:"cluster_id"`
	NewClusterID string `json:"new_cluster_id"`
	// Term and Index tell how far the log goes.
	Term    uint64              `json:"term"`
	Index   uint64              `json:"index"`
	Members []recoverMemberJSON `json:"members"`
	Jobs    []recoverJobJSON    `json:"jobs"`
}

// recoverMemberJSON is a node that the log names.
type recoverMemberJSON struct {
	Node  string `json:"node"`
	Voter bool   `json:"voter"`
}

// recoverJobJSON is a job that the log has on record.
type recoverJobJSON struct {
	Job    string `json:"job"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Epoch  uint64 `json:"epoch"`
	// CompletedCheckpoint is the newest that it goes on from, 0 for none.
	CompletedCheckpoint uint64 `json:"completed_checkpoint"`
}

func newRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Go on with one node after most of the voters were lost for good",
		Long: `Go on with one node after most of the voters were lost for good: make the stopped
node whose data folder is given the only voter of a new cluster, with what its
metadata log holds. Lost voters that can come back with their data folders need no
recover: start them, and that is all.

Without --sole-voter nothing is changed: it prints how far the log goes and which
jobs and checkpoints are in it. Of several survivors take the one with the greatest
term, and of those the one with the greatest index.

What only the lost voters knew is lost: jobs that were deployed or cancelled last, and
the last completed checkpoints, so that jobs go on from an older one. Start the node
afterwards as before, and all others with new data folders. A node of the old cluster
that meets the new one ends and says so. Two of them that the new one cannot reach
would go on with the same jobs: make sure that lost nodes do not come back.

Exit code 0: done, or nothing was to be changed. 1: the folder is damaged. 2: usage.
3: there is no metadata in the folder. 4: a node uses it.`,
		Args: cobra.NoArgs,
	}
	dataDir := cmd.Flags().String("data-dir", "", "data folder of the node (required)")
	sole := cmd.Flags().Bool("sole-voter", false, "do it: this node decides alone, and what only others knew is lost")
	output := formatFlag(cmd, "what the log holds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *dataDir == "" {
			return coded(exitUsage, errors.New("recover needs --data-dir, the data folder of the node that goes on"))
		}
		return recoverNode(cmd, *dataDir, *sole, *output)
	}
	return cmd
}

func recoverNode(cmd *cobra.Command, dataDir string, sole bool, output format) error {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return coded(exitError, err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return coded(exitNotFound, fmt.Errorf("there is no folder %s", dir))
	}
	r, err := node.OpenRecovery(vfs.OS(), dir)
	switch {
	case errors.Is(err, node.ErrDataDirInUse):
		return coded(exitConflict, err)
	case errors.Is(err, replicated.ErrNoLog):
		return coded(exitNotFound, err)
	case err != nil:
		return coded(exitError, err)
	}
	defer r.Close()
	id := ""
	if sole {
		if id, err = r.Recover(); err != nil {
			return coded(exitError, err)
		}
	}
	if err := printRecovery(cmd, r, id, output); err != nil {
		return err
	}
	if !sole {
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing was changed; with --sole-voter this node goes on alone, and what only the other voters knew is lost\n")
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "node %s is the only voter of cluster %s now; start it, and all others with new data folders\n", shortID(r.Node), id)
	return nil
}

// printRecovery prints what the log holds, or held before.
func printRecovery(cmd *cobra.Command, r *node.Recovery, newID string, output format) error {
	out := recoverJSON{Node: r.Node, Cluster: r.Name, ClusterID: r.ClusterID, NewClusterID: newID, Term: r.Term, Index: r.Index,
		Members: make([]recoverMemberJSON, len(r.Members)), Jobs: make([]recoverJobJSON, len(r.Jobs))}
	voters := 0
	for i, m := range r.Members {
		out.Members[i] = recoverMemberJSON{m.ID, m.Voter}
		if m.Voter {
			voters++
		}
	}
	rows := make([][]string, len(r.Jobs))
	for i, j := range r.Jobs {
		completed := uint64(0)
		if n := len(j.Completed); n > 0 {
			completed = j.Completed[n-1].Checkpoint
		}
		out.Jobs[i] = recoverJobJSON{j.Job, j.Name, j.Status.String(), j.Epoch, completed}
		rows[i] = []string{shortID(j.Job), j.Name, j.Status.String(), number(completed)}
	}
	if output == jsonText {
		return printJSON(cmd, out)
	}
	if err := printLine(cmd, fmt.Sprintf("node %s, cluster %s (%s) of %s: the log goes to term %d, index %d\n",
		shortID(r.Node), r.Name, r.ClusterID, count(voters, "voter"), r.Term, r.Index)); err != nil {
		return err
	}
	return table(cmd, []string{"ID", "NAME", "STATUS", "CHECKPOINT"}, rows)
}
