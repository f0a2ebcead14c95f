package command

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"cutwater/api"
	"cutwater/api/apitest"
)

// twoNodes are two nodes that know each other, with an API each, and the address of
// the first.
func twoNodes(t *testing.T) (at string, first, second *apitest.Backend) {
	first, second = apitest.Sample(), apitest.Sample()
	first.Node.ID, first.Node.Name = "aa", "aa.1"
	second.Node.ID, second.Node.Name = "bb", "bb.2"
	first.Node.HTTP, second.Node.HTTP = served(t, first, ""), served(t, second, "")
	first.Others, second.Others = []api.Node{second.Node}, []api.Node{first.Node}
	return first.Node.HTTP, first, second
}

// happened is an event of a node, that many milliseconds after 1970.
func happened(node string, ms int64, job, text string) api.Event {
	return api.Event{AtMs: ms, Node: node, Job: job, Kind: "Told", Text: text}
}

var stamped = regexp.MustCompile(`(?m)^[-0-9]+ [0-9:]+\.`)

// The events of all nodes are shown in the order of their times, those of a node that
// was asked at two addresses once; of a job alone if that is wanted; and what a dead
// node knows is said to be missing.
func TestPastEvents(t *testing.T) {
	at, first, second := twoNodes(t)
	first.Happen(happened("aa.1", 10, "", "one"))
	second.Happen(happened("bb.2", 20, apitest.Running, "two\tand\x1b more"))
	first.Happen(happened("aa.1", 30, apitest.Failed, "three"))
	const want = "010  aa        -         one\n020  bb        00000000  two and  more\n030  aa        00000000  three\n"
	if code, out, errOut := ran("events", "--addr", at); code != exitOK || stamped.ReplaceAllString(out, "") != want || errOut != "" {
		t.Errorf("exit code %d, printed\n%swant\n%ssaid %s", code, out, want, errOut)
	}
	if code, out, _ := ran("events", "--addr", "localhost:"+at[strings.LastIndex(at, ":")+1:]); code != exitOK || stamped.ReplaceAllString(out, "") != want {
		t.Errorf("by another address: exit code %d, printed\n%s", code, out)
	}
	code, out, _ := ran("events", "--job", "flights", "-o", "json", "--addr", at)
	if want := `{"number":1,"at":"1970-01-01T00:00:00.020Z","node":"bb","job":"` + apitest.Running + `","kind":"Told","text":"two\tand\u001b more"}` + "\n"; code != exitOK || out != want {
		t.Errorf("exit code %d, got\n%swant\n%s", code, out, want)
	}
	first.Others[0].HTTP = "127.0.0.1:1"
	code, out, errOut := ran("events", "--addr", at)
	if code != exitOK || strings.Count(out, "\n") != 2 || !strings.HasPrefix(errOut, "events of node bb are missing: ") {
		t.Errorf("exit code %d, printed\n%ssaid %s", code, out, errOut)
	}
}

// signalled is a buffer whose every line is a signal.
type signalled struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

// Write implements io.Writer.
func (s *signalled) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines <- string(p)
	return s.text.Write(p)
}

// With -f further events are shown as they happen on each node, until the command is
// interrupted, which is no error.
func TestFollowedEvents(t *testing.T) {
	at, first, second := twoNodes(t)
	first.Happen(happened("aa.1", 10, "", "before"))
	out := &signalled{lines: make(chan string, 16)}
	root := newRoot()
	root.SetArgs([]string{"events", "-f", "--addr", at})
	root.SetOut(out)
	root.SetErr(&bytes.Buffer{})
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	next := func(want string) {
		t.Helper()
		select {
		case line := <-out.lines:
			if !strings.HasSuffix(line, want+"\n") {
				t.Errorf("got %q, want %s", line, want)
			}
		case err := <-ended:
			t.Fatalf("%s is not shown: the command has ended with %v", want, err)
		}
	}
	next("before")
	for i := range 3 {
		first.Happen(happened("aa.1", 20, "", fmt.Sprint("first ", i)))
		next(fmt.Sprint("first ", i))
		second.Happen(happened("bb.2", 20, "", fmt.Sprint("second ", i)))
		next(fmt.Sprint("second ", i))
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
