package filesink_test

import (
	"slices"
	"testing"

	"cutwater/connector/filesink"
	"cutwater/storage/vfs"
)

// Older files are those of this job's earlier incarnations, whatever the uid holds;
// their patterns match nothing else.
func TestFindOlder(t *testing.T) {
	const job = "0123456789abcdef0123456789abcdef"
	fsys := vfs.Mem()
	if older, err := filesink.FindOlder(fsys, dir, job, 3); err != nil || older.Files != 0 {
		t.Errorf("a folder that is not there: %+v, %v", older, err)
	}
	must(t, fsys.MkdirAll(dir))
	for _, name := range []string{
		"part-out-01234567-1-0-4.csv", "part-out-01234567-1-1-4.csv", "part-out-01234567-2-0-9.csv", "part-a-1-2-01234567-2-0-9.csv",
		"part-out-01234567-3-0-12.csv", "part-out-01234567-12-0-12.csv", // this one and a later one
		"part-out-89abcdef-1-0-4.csv", "notes.txt", "part-x.csv", "part-out-01234567-x-0-4.csv",
	} {
		must(t, vfs.WriteFile(fsys, dir+"/"+name, nil))
	}
	older, err := filesink.FindOlder(fsys, dir, job, 3)
	must(t, err)
	want := []string{dir + "/part-a-1-2-01234567-2-*", dir + "/part-out-01234567-1-*", dir + "/part-out-01234567-2-*"}
	if older.Files != 4 || !slices.Equal(older.Patterns, want) {
		t.Errorf("%d files, %q", older.Files, older.Patterns)
	}
}
