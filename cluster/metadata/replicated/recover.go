package replicated

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Position returns how far the log in the folder goes. Of several survivors the one
// with the greater term, and with the same term the greater index, has the newest.
// The node must not run.
func Position(dir string) (term, index uint64, err error) {
	file, err := openLog(dir, hclog.NewNullLogger())
	if err != nil {
		return 0, 0, err
	}
	term, index, err = position(file, dir)
	return term, index, errors.Join(err, file.close())
}

func position(file *logFile, dir string) (term, index uint64, err error) {
	if index, err = file.LastIndex(); err != nil {
		return 0, 0, err
	}
	if index > 0 {
		var last raft.Log
		err = file.GetLog(index, &last)
		return last.Term, index, err
	}
	snapshots, err := openSnapshots(dir, file.log)
	if err != nil {
		return 0, 0, err
	}
	all, err := snapshots.List()
	if err != nil || len(all) == 0 {
		return 0, 0, err
	}
	return all[0].Term, all[0].Index, nil
}

// Recover makes the stopped node whose folder is given the only voter of its cluster,
// after a majority of the voters was lost for good. What its log holds becomes the
// truth, also what was never agreed on; what only the lost nodes knew is lost: at
// worst completions that were answered, so jobs resume from an older checkpoint.
//
// The peers file is JSON, [{"id": "NODE ID", "address": "HOST:PORT"}], and must name
// this node and no other voter: two survivors may hold different ends of the log.
// Before: stop all nodes; take the survivor that Position says is the newest. After:
// start it; the others, lost or not, come back with new data folders only, because
// their old logs could elect a second leader.
func Recover(o Options, peersFile string) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	peers, err := raft.ReadConfigJSON(peersFile)
	if err != nil {
		return fmt.Errorf("metadata: the peers file %s: %w; it must be like [{\"id\": %q, \"address\": \"host:port\"}]", peersFile, err, o.NodeID)
	}
	if len(peers.Servers) != 1 || string(peers.Servers[0].ID) != o.NodeID {
		return fmt.Errorf("metadata: the peers file %s must name this node, %s, and no other; the others join it afterwards with new data folders", peersFile, o.NodeID)
	}
	log := o.logger()
	file, err := openLog(o.Dir, log)
	if err != nil {
		return err
	}
	return errors.Join(recoverFrom(o, file, peers), file.close())
}

func recoverFrom(o Options, file *logFile, peers raft.Configuration) error {
	snapshots, err := openSnapshots(o.Dir, file.log)
	if err != nil {
		return err
	}
	if known, err := raft.HasExistingState(file, file, snapshots); err != nil {
		return err
	} else if !known {
		return fmt.Errorf("metadata: %s holds no log to recover; is this the data folder of the survivor?", o.Dir)
	}
	machine := newFSM(o.SnapshotEvery, func(string) {})
	_, transport := raft.NewInmemTransport(peers.Servers[0].Address)
	if err := raft.RecoverCluster(o.config(file.log), machine, file, file, snapshots, transport, peers); err != nil {
		return fmt.Errorf("metadata: %s cannot be recovered: %w", o.Dir, err)
	}
	return nil
}
