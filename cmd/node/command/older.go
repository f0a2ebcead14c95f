package command

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"cutwater/connector/filesink"
	"cutwater/storage/vfs"
	"cutwater/topology"
)

// olderFiles counts the files that earlier incarnations of the job left in the
// output folders, and says so in the first run of a new one: its result is not a
// continuation of theirs, and nothing that was committed is ever deleted.
func olderFiles(fsys vfs.FS, t *topology.Topology, job string, incarnation uint64, isNew bool, warn io.Writer) int {
	sum := 0
	for _, op := range t.Operators {
		if op.Kind != topology.Sink || op.Connector.Name != filesink.Spec().Name {
			continue
		}
		older, err := filesink.FindOlder(fsys, op.Connector.Values.Strings["path"], job, incarnation)
		if err != nil {
			continue // the sink will fail with what is wrong with its folder
		}
		sum += older.Files
		if older.Files > 0 && isNew {
			fmt.Fprintf(warn, "warning: %s of earlier incarnations of this job stay in %s; who reads the folder sees their rows beside those of this run (number %d). To have only the new ones:\n  rm %s\n",
				count(older.Files, "file"), older.Dir, incarnation, shellWords(older.Patterns))
		}
	}
	return sum
}

// shellWords are patterns as a shell reads them: everything in them that is not
// safe gets a backslash, the stars stay.
func shellWords(patterns []string) string {
	words := make([]string, len(patterns))
	for i, p := range patterns {
		words[i] = unsafeInShell.ReplaceAllString(p, `\$0`)
	}
	return strings.Join(words, " ")
}

var unsafeInShell = regexp.MustCompile(`[^\w@%+=:,./*-]`)
