package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"

	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/storage/vfs"
)

// Recovery is a stopped node whose log could become the truth of its cluster, after
// most of the voters were lost for good. It keeps the node from starting until Close.
type Recovery struct {
	// Node is the node's id, Name that of its cluster.
	Node, Name string
	// Contents is what its log holds.
	*replicated.Contents

	dir  string
	lock io.Closer
}

// OpenRecovery reads the metadata in the data folder of a node that does not run, and
// changes nothing. The errors wrap ErrDataDirInUse or replicated.ErrNoLog, or say what
// is wrong with the folder.
func OpenRecovery(fsys vfs.FS, dataDir string) (*Recovery, error) {
	node, name, err := membership.ReadIdentity(fsys, dataDir)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is the data folder of no node: %w", replicated.ErrNoLog, dataDir, err)
	}
	lock, err := lockDataDir(fsys, dataDir)
	if err != nil {
		return nil, err
	}
	r := &Recovery{Node: node, Name: name, dir: path.Join(dataDir, "metadata"), lock: lock}
	if r.Contents, err = replicated.Inspect(r.dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

// Recover makes the node the only voter of a cluster with a new id, which it returns;
// see replicated.Recover.
func (r *Recovery) Recover() (clusterID string, err error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	clusterID = hex.EncodeToString(id[:])
	return clusterID, replicated.Recover(replicated.Options{NodeID: r.Node, Dir: r.dir}, clusterID)
}

// Close lets the node start again.
func (r *Recovery) Close() error { return r.lock.Close() }
