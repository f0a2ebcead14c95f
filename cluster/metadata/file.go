package metadata

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"cutwater/cluster/metadata/internal/boltfile"
	"cutwater/messages"
)

// The file: bucket "format" holds the version of the format; "snapshot" the
// newest messages.MetadataSnapshot; "log" the commands after it, under their
// index as 8 bytes, big endian. Snapshot and commands stand behind a CRC-32C of
// key and body, 4 bytes, little endian.
var layout = boltfile.Layout{
	Version: 1,
	Buckets: [][]byte{snapshotBucket, logBucket},
	Advice:  "restore the file from a backup, or move it away and restore the jobs from their checkpoints (--restore PATH)",
}

var (
	snapshotBucket = []byte("snapshot")
	logBucket      = []byte("log")

	snapshotKey = []byte("newest")
)

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func corrupt(path string, cause error) error { return layout.Corrupt(path, cause) }

// replay reads the file into the machine.
func (l *Local) replay(tx *bolt.Tx) error {
	if value := tx.Bucket(snapshotBucket).Get(snapshotKey); value != nil {
		snapshot := &messages.MetadataSnapshot{}
		if err := unseal(snapshotKey, value, snapshot); err != nil {
			return corrupt(l.path, fmt.Errorf("snapshot: %w", err))
		}
		if err := l.machine.Restore(snapshot); err != nil {
			return corrupt(l.path, err)
		}
	}
	return tx.Bucket(logBucket).ForEach(func(key, value []byte) error {
		next := l.machine.Index() + 1
		if len(key) != 8 || binary.BigEndian.Uint64(key) != next {
			return corrupt(l.path, fmt.Errorf("command %d is missing", next))
		}
		command := &messages.MetadataCommand{}
		if err := unseal(key, value, command); err != nil {
			return corrupt(l.path, fmt.Errorf("command %d: %w", next, err))
		}
		l.machine.Apply(next, command)
		l.logged++
		return nil
	})
}

func putEntry(tx *bolt.Tx, index uint64, body []byte) error {
	key := indexKey(index)
	return tx.Bucket(logBucket).Put(key, boltfile.Seal(key, body))
}

// putSnapshot replaces the whole log by a snapshot.
func putSnapshot(tx *bolt.Tx, snapshot *messages.MetadataSnapshot) error {
	body, err := encode(snapshot)
	if err != nil {
		return err
	}
	if err := tx.DeleteBucket(logBucket); err != nil {
		return err
	}
	if _, err := tx.CreateBucket(logBucket); err != nil {
		return err
	}
	return tx.Bucket(snapshotBucket).Put(snapshotKey, boltfile.Seal(snapshotKey, body))
}

// unseal checks and decodes what is stored under the key.
func unseal(key, value []byte, m proto.Message) error {
	body, err := boltfile.Unseal(key, value)
	if err != nil {
		return err
	}
	return proto.Unmarshal(body, m)
}

func encode(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
