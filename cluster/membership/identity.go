package membership

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"cutwater/storage/vfs"
)

// The files of an identity in the data folder.
const (
	identityFile = "node"
	identityLock = "node.lock"
)

const identityFormat = "cutwater node 1"

// nodeIDBytes is the size of a node id; it is written in hex digits.
const nodeIDBytes = 16

// Sentinels by which callers decide; the errors that wrap them say what to do.
var (
	// ErrInUse: another process uses the data folder.
	ErrInUse = errors.New("membership: data folder in use")
	// ErrIdentity: the identity in the data folder cannot be used.
	ErrIdentity = errors.New("membership: bad identity")
)

// Identity is who a data folder is.
type Identity struct {
	// Node is the node's id: 32 lower-case hex digits, drawn when the folder was
	// made.
	Node string
	// Start counts how often it was opened, from 1; it is durable, and no two
	// processes ever have the same.
	Start uint64

	lock io.Closer
}

// OpenIdentity reads the identity of a data folder, or makes it, counts this start,
// and locks the folder until Close. A folder belongs to one cluster name for good.
// The errors wrap ErrInUse, ErrOtherName or ErrIdentity, or are those of the file system; random is
// crypto/rand.Reader.
//
// The file is replaced as a whole and made durable before this returns: a crash at
// any moment leaves the folder with its old count, its new one, or without an
// identity that nobody has seen.
func OpenIdentity(fsys vfs.FS, dir, clusterName string, random io.Reader) (*Identity, error) {
	if err := CheckName(clusterName); err != nil {
		return nil, err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("the data folder cannot be made: %w", err)
	}
	lock, err := fsys.Lock(path.Join(dir, identityLock))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: another node runs in %s; stop it, or use another data folder", ErrInUse, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("the data folder cannot be locked: %w", err)
	}
	id, err := startIdentity(fsys, dir, clusterName, random)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	id.lock = lock
	return id, nil
}

// ReadIdentity reads who a data folder is, the node's id and the name of its cluster,
// without opening it. The error wraps ErrIdentity or fs.ErrNotExist, or is that of the
// file system.
func ReadIdentity(fsys vfs.FS, dir string) (node, clusterName string, err error) {
	file := path.Join(dir, identityFile)
	content, err := vfs.ReadFile(fsys, file)
	if err != nil {
		return "", "", err
	}
	id, clusterName, err := parseIdentity(string(content))
	if err != nil {
		return "", "", fmt.Errorf("%w: %s: %w", ErrIdentity, file, err)
	}
	return id.Node, clusterName, nil
}

// Close lets another process open the folder.
func (i *Identity) Close() error { return i.lock.Close() }

func startIdentity(fsys vfs.FS, dir, clusterName string, random io.Reader) (*Identity, error) {
	file := path.Join(dir, identityFile)
	id := &Identity{}
	content, err := vfs.ReadFile(fsys, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		raw := make([]byte, nodeIDBytes)
		if _, err := io.ReadFull(random, raw); err != nil {
			return nil, fmt.Errorf("no node id can be drawn: %w", err)
		}
		id.Node = hex.EncodeToString(raw)
	case err != nil:
		return nil, fmt.Errorf("the identity of the node cannot be read: %w", err)
	default:
		var name string
		if id, name, err = parseIdentity(string(content)); err != nil {
			return nil, fmt.Errorf("%w: %s: %w; restore the file, or remove it to make this a new node", ErrIdentity, file, err)
		}
		if name != clusterName {
			return nil, fmt.Errorf("%w: the data folder %s belongs to the cluster %q, not to %q; use another folder, or the cluster name %[3]s", ErrOtherName, dir, name, clusterName)
		}
	}
	id.Start++
	text := fmt.Sprintf("%s\nid %s\ncluster %s\nstarts %d\n", identityFormat, id.Node, clusterName, id.Start)
	if err := replaceFile(fsys, file, []byte(text)); err != nil {
		return nil, fmt.Errorf("the identity of the node cannot be written: %w", err)
	}
	return id, nil
}

// parseIdentity reads what startIdentity wrote.
func parseIdentity(text string) (id *Identity, clusterName string, err error) {
	lines := strings.Split(text, "\n")
	if err := checkFormat(lines[0], identityFormat); err != nil {
		return nil, "", err
	}
	if len(lines) != 5 || lines[4] != "" {
		return nil, "", errors.New("it does not have four lines")
	}
	node, ok1 := strings.CutPrefix(lines[1], "id ")
	clusterName, ok2 := strings.CutPrefix(lines[2], "cluster ")
	starts, ok3 := strings.CutPrefix(lines[3], "starts ")
	start, err := strconv.ParseUint(starts, 10, 63)
	if !ok1 || !ok2 || !ok3 || err != nil || !isNodeID(node) || CheckName(clusterName) != nil {
		return nil, "", errors.New("a line is damaged")
	}
	return &Identity{Node: node, Start: start}, clusterName, nil
}

// checkFormat compares the first line of a file, a name and a version.
func checkFormat(line, want string) error {
	name := want[:strings.LastIndexByte(want, ' ')+1]
	switch {
	case line == want:
		return nil
	case strings.HasPrefix(line, name):
		return fmt.Errorf("it has the format %q, and this program knows %q; update the program", line, want)
	}
	return fmt.Errorf("it does not begin with %q", want)
}

// isNodeID reports whether the text is a node id.
func isNodeID(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == nodeIDBytes && strings.ToLower(text) == text
}

// replaceFile gives a file new content, durably, or leaves the old one.
func replaceFile(fsys vfs.FS, file string, content []byte) error {
	next := file + ".next"
	if err := vfs.WriteFile(fsys, next, content); err != nil {
		return err
	}
	if err := fsys.Rename(next, file); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(file))
}
