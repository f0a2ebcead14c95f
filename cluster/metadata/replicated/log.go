package replicated

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	bolt "go.etcd.io/bbolt"

	"cutwater/cluster/metadata/internal/boltfile"
	"cutwater/storage/boltdb"
)

// The file raft.db: bucket "log" holds the entries under their index as 8 bytes, big
// endian; "vote" what the library must remember: terms, votes; under "cluster" the
// cluster's id, and under "superseded" what Store.Supersede has noted. Each value stands behind its checksum (boltfile.Seal).
var layout = boltfile.Layout{
	Version: 1,
	Buckets: [][]byte{logBucket, voteBucket},
	Advice:  "move the whole data folder away and start the node again: it joins as a new node, and the others have the log; if they are lost too, restore the jobs from their checkpoints (--restore PATH)",
}

var (
	logBucket  = []byte("log")
	voteBucket = []byte("vote")
	clusterKey = []byte("cluster")
	// supersededKey has the id of the cluster as which this node's one goes on.
	supersededKey = []byte("superseded")
)

// logFile is the library's LogStore and StableStore. The log has no gaps.
type logFile struct {
	path string
	db   *boltdb.DB
	log  hclog.Logger
	// retry is how long to wait before what failed is written again; stop ends the
	// waiting.
	retry time.Duration
	stop  chan struct{}
}

// openLog opens the log in the folder and reads all of it once: the library ends the
// process over an entry that it cannot read later.
func openLog(dir string, log hclog.Logger) (*logFile, error) {
	path := filepath.Join(dir, "raft.db")
	db, err := layout.Open(path, lockTimeout)
	if err != nil {
		return nil, err
	}
	l := &logFile{path: path, db: db, log: log, retry: time.Second, stop: make(chan struct{})}
	if err := l.check(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func (l *logFile) check() error {
	return l.db.View(func(tx *bolt.Tx) error {
		last := uint64(0)
		err := tx.Bucket(logBucket).ForEach(func(key, value []byte) error {
			switch {
			case len(key) != 8:
				return l.corrupt(fmt.Errorf("entry %x has no index", key))
			case last != 0 && binary.BigEndian.Uint64(key) != last+1:
				return l.corrupt(fmt.Errorf("entry %d is missing", last+1))
			}
			last = binary.BigEndian.Uint64(key)
			return l.decode(key, value, &raft.Log{})
		})
		if err != nil {
			return err
		}
		return tx.Bucket(voteBucket).ForEach(func(key, value []byte) error {
			if _, err := boltfile.Unseal(key, value); err != nil {
				return l.corrupt(fmt.Errorf("%q: %w", key, err))
			}
			return nil
		})
	})
}

func (l *logFile) corrupt(cause error) error { return layout.Corrupt(l.path, cause) }

func (l *logFile) close() error { return l.db.Close() }

// FirstIndex implements raft.LogStore.
func (l *logFile) FirstIndex() (uint64, error) {
	return l.end(func(c *bolt.Cursor) ([]byte, []byte) { return c.First() })
}

// LastIndex implements raft.LogStore.
func (l *logFile) LastIndex() (uint64, error) {
	return l.end(func(c *bolt.Cursor) ([]byte, []byte) { return c.Last() })
}

func (l *logFile) end(which func(*bolt.Cursor) ([]byte, []byte)) (index uint64, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		index = lastOr(which(tx.Bucket(logBucket).Cursor()))
		return nil
	})
	return index, err
}

func lastOr(key, _ []byte) uint64 {
	if key == nil {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

// GetLog implements raft.LogStore.
func (l *logFile) GetLog(index uint64, entry *raft.Log) error {
	return l.db.View(func(tx *bolt.Tx) error {
		key := indexKey(index)
		value := tx.Bucket(logBucket).Get(key)
		if value == nil {
			return raft.ErrLogNotFound
		}
		return l.decode(key, value, entry)
	})
}

// StoreLog implements raft.LogStore.
func (l *logFile) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore. Entries that do not follow the last one follow
// a snapshot, which has all before them.
func (l *logFile) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	err := l.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(logBucket)
		if last := lastOr(b.Cursor().Last()); last != 0 && entries[0].Index > last+1 {
			var err error
			if err = tx.DeleteBucket(logBucket); err == nil {
				b, err = tx.CreateBucket(logBucket)
			}
			if err != nil {
				return err
			}
		}
		for _, e := range entries {
			key := indexKey(e.Index)
			if err := b.Put(key, boltfile.Seal(key, encodeEntry(e))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return l.unwritten(err)
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (l *logFile) DeleteRange(first, last uint64) error {
	err := l.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(logBucket)
		end := min(last, lastOr(b.Cursor().Last()))
		for index := max(first, lastOr(b.Cursor().First())); index <= end; index++ {
			if err := b.Delete(indexKey(index)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return l.unwritten(err)
	}
	return nil
}

// Get implements raft.StableStore.
func (l *logFile) Get(key []byte) (value []byte, err error) {
	err = l.db.View(func(tx *bolt.Tx) error {
		sealed := tx.Bucket(voteBucket).Get(key)
		if sealed == nil {
			return nil
		}
		body, err := boltfile.Unseal(key, sealed)
		if err != nil {
			return l.corrupt(fmt.Errorf("%q: %w", key, err))
		}
		value = append([]byte{}, body...)
		return nil
	})
	return value, err
}

// GetUint64 implements raft.StableStore.
func (l *logFile) GetUint64(key []byte) (uint64, error) {
	value, err := l.Get(key)
	if err != nil || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// SetUint64 implements raft.StableStore.
func (l *logFile) SetUint64(key []byte, value uint64) error {
	return l.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// Set implements raft.StableStore, and returns no error: the library would end the
// process over a term that it cannot write, and a node whose disk is full should not
// die of it, but be silent. So it tries until there is space, or until the store is
// closed, and then ends its goroutine, which must not go on without.
func (l *logFile) Set(key, value []byte) error {
	for {
		err := l.put(key, value)
		if err == nil {
			return nil
		}
		l.log.Error("this node neither votes nor leads until its disk can be written", "error", err)
		wait := time.NewTimer(l.retry)
		select {
		case <-wait.C:
		case <-l.stop:
			wait.Stop()
			runtime.Goexit()
		}
	}
}

func (l *logFile) put(key, value []byte) error {
	err := l.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(voteBucket).Put(key, boltfile.Seal(key, value))
	})
	if err != nil {
		return l.unwritten(err)
	}
	return nil
}

func (l *logFile) unwritten(err error) error {
	return fmt.Errorf("metadata: %s cannot be written: %w; free disk space or repair the disk", l.path, err)
}

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// An entry: term (8 bytes), type (1), time in ns (8), length of the extensions (4),
// all little endian; extensions; data.
const entryHeader = 8 + 1 + 8 + 4

func encodeEntry(e *raft.Log) []byte {
	b := make([]byte, 0, entryHeader+len(e.Extensions)+len(e.Data))
	b = binary.LittleEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	at := int64(0)
	if !e.AppendedAt.IsZero() {
		at = e.AppendedAt.UnixNano()
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Extensions)))
	b = append(b, e.Extensions...)
	return append(b, e.Data...)
}

// decode fills entry with copies of what is stored under the key.
func (l *logFile) decode(key, value []byte, entry *raft.Log) error {
	index := binary.BigEndian.Uint64(key)
	b, err := boltfile.Unseal(key, value)
	if err != nil {
		return l.corrupt(fmt.Errorf("entry %d: %w", index, err))
	}
	if len(b) < entryHeader || uint64(len(b)-entryHeader) < uint64(binary.LittleEndian.Uint32(b[17:])) {
		return l.corrupt(fmt.Errorf("entry %d is too short", index))
	}
	*entry = raft.Log{Index: index, Term: binary.LittleEndian.Uint64(b), Type: raft.LogType(b[8])}
	if at := int64(binary.LittleEndian.Uint64(b[9:])); at != 0 {
		entry.AppendedAt = time.Unix(0, at)
	}
	extensions := int(binary.LittleEndian.Uint32(b[17:]))
	body := append([]byte{}, b[entryHeader:]...)
	if extensions > 0 {
		entry.Extensions = body[:extensions:extensions]
	}
	entry.Data = body[extensions:]
	return nil
}
