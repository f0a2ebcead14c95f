package filesink

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"cutwater/storage/vfs"
)

// Older are the visible files in a folder that earlier incarnations of a job
// wrote.
type Older struct {
	Dir   string
	Files int
	// Patterns match these files and no others: one per operator and incarnation,
	// sorted.
	Patterns []string
}

// FindOlder looks for the files of the job's incarnations before this one. A
// folder that does not exist has none.
func FindOlder(fsys vfs.FS, dir, job string, incarnation uint64) (Older, error) {
	older := Older{Dir: dir}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return older, nil
	}
	if err != nil {
		return older, fmt.Errorf("file sink: list the folder %s: %w", dir, err)
	}
	for _, e := range entries {
		prefix, wrote, ok := incarnationOf(e.Name())
		if owner, _ := jobOfVisible(e.Name()); !ok || owner != shortJob(job) || wrote >= incarnation {
			continue
		}
		older.Files++
		if pattern := path.Join(dir, prefix+"*"); !slices.Contains(older.Patterns, pattern) {
			older.Patterns = append(older.Patterns, pattern)
		}
	}
	slices.Sort(older.Patterns)
	return older, nil
}

// incarnationOf reads the incarnation in a visible file's name, and the part of
// the name that ends with it.
func incarnationOf(name string) (prefix string, incarnation uint64, ok bool) {
	stem := strings.TrimSuffix(name, path.Ext(name))
	fields := strings.Split(stem, "-")
	if len(fields) < 4 {
		return "", 0, false
	}
	head := fields[:len(fields)-2] // subtask and checkpoint follow
	incarnation, err := strconv.ParseUint(head[len(head)-1], 10, 64)
	return strings.Join(head, "-") + "-", incarnation, err == nil
}
