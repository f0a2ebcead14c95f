package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/cluster/secret"
)

// served starts the API of a backend and returns its address. The environment names
// no node and no secret.
func served(t *testing.T, b api.Backend, token string) string {
	t.Helper()
	for _, name := range []string{addrVariable, clusterVariable, secretVariable, secretFileVariable} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
	s := httptest.NewServer(api.New(api.Options{Backend: b, Token: token, Version: "1.2.3"}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// ran runs the command in this process.
func ran(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = Main(args, &o, &e)
	return code, o.String(), e.String()
}

// squeezed is a table without what depends on the day: the ages of the samples, and
// the widths of columns.
func squeezed(out string) string {
	out = regexp.MustCompile(`[0-9]+ d\b( ago)?`).ReplaceAllString(out, "AGE")
	return regexp.MustCompile(` {2,}`).ReplaceAllString(out, "  ")
}

// The lists have a row for each thing, in stable columns, and JSON with times in RFC
// 3339; what is not known is a dash, or null.
func TestLists(t *testing.T) {
	at := served(t, apitest.Sample(), "")
	for _, c := range []struct{ args, out, errOut string }{
		{"jobs", `
ID        NAME       STATUS   SINCE  CHECKPOINT  COORDINATOR
00000000  flights    RUNNING  AGE    -           01234567
00000000  created    CREATED  AGE    -           -
00000000  unchecked  RUNNING  AGE    -           01234567
`, "2 jobs that ended: -a lists all\n"},
		{"jobs -a", `
ID        NAME       STATUS    SINCE  CHECKPOINT  COORDINATOR
00000000  flights    RUNNING   AGE    -           01234567
00000000  finished   FINISHED  AGE    2           01234567
00000000  failed     FAILED    AGE    -           01234567
00000000  created    CREATED   AGE    -           -
00000000  unchecked  RUNNING   AGE    -           01234567
`, ""},
		{"nodes", `
ID        ADDRESS         STATE  ROLE    SLOTS  JOBS  ZONE  VERSION  UPTIME
01234567  127.0.0.1:8081  alive  leader  3/4    2     -     1.2.3    AGE
ff        127.0.0.1:8081  alive  voter   3/4    0     -     1.2.3    AGE
`, ""},
		{"checkpoints flights", `
ID  STATUS       TYPE             TRIGGERED  DURATION  SIZE  STATE  ACKS  FAILURE
9   IN_PROGRESS  CHECKPOINT       AGE        60 ms     10 B  20 B   3/4   -
8   COMPLETED    FULL_CHECKPOINT  AGE        60 ms     10 B  20 B   4/4   -
7   FAILED       CHECKPOINT       AGE        60 ms     10 B  20 B   1/4   CHECKPOINT_EXPIRED: 2 of 4 tasks did not acknowledge
6   COMPLETED    SAVEPOINT        AGE        60 ms     10 B  20 B   4/4   -
5   ABORTED      CHECKPOINT       AGE        60 ms     10 B  20 B   0/4   CHECKPOINT_SUBSUMED
`, "job flights (00000000) RUNNING: 6 completed, 1 failed, 1 in progress; checkpoint 8 completed AGE after 60 ms, 20 B\n"},
		{"job flights", `
job          flights (000000000000000000000000000000a1)
status       RUNNING, AGE
failure      operator "daily" failed: <boom>
exception    AGE, attempt 0.1 failed on node 01234567: operator "daily" failed: <boom> second line
coordinator  node 01234567, attempt 0.2, 1 restart
checkpoints  6 completed, 1 failed, 1 in progress; checkpoint 8 completed AGE after 60 ms, 20 B
restored     checkpoint 3 chk-3, 600 B of it from copies on the nodes, 40 B from there

VERTEX        SUBTASKS  NODE      STATE    SINCE  RECORDS READ
flights       0-1       01234567  RUNNING  AGE    2,000
daily -> out  0-1       01234567  RUNNING  AGE    -
`, ""},
		{"jobs -o json", `[{"job":"000000000000000000000000000000a1","name":"flights","status":"RUNNING","since":"2023-11-14T22:13:25.000Z","created":"2023-11-14T22:13:20.000Z","incarnation":1,"epoch":1,"coordinator":"0123456789abcdef0123456789abcdef","failure":"","completed_checkpoint":0},`, ""},
		{"nodes -o json", `[{"node":"0123456789abcdef0123456789abcdef","http":"127.0.0.1:8081","gossip":"127.0.0.1:7946","control":"127.0.0.1:7947","data":"127.0.0.1:7948","zone":"","version":"1.2.3","voter":true,"leader":true,"alive":true,"leaving":false,"slots":4,"slots_used":3,"jobs":["000000000000000000000000000000a1","000000000000000000000000000000a5"],"started":"2023-11-14T22:13:20.000Z"},`, ""},
		{"checkpoints -o json flights", `[{"checkpoint":9,"status":"IN_PROGRESS","type":"CHECKPOINT","triggered":"2023-11-14T22:13:30.000Z","ended":null,"duration_ms":60,"checkpoint_bytes":10,"state_bytes":20,"acknowledged":3,"subtasks":4,"unaligned":false,"location":"","discarded":false,"failure":""},`, ""},
		{"checkpoints -o json created", "[]\n", ""},
		{"job -o json flights", `{"job":"000000000000000000000000000000a1","name":"flights","status":"RUNNING","since":"2023-11-14T22:13:25.000Z","waiting":"","failure":"operator \"daily\" failed: \u003cboom\u003e","coordinator":"0123456789abcdef0123456789abcdef","incarnation":1,"epoch":1,"attempt":2,"restarts":1,"tasks":[{"vertex":"flights-00000001","operators":["flights"],"subtask":0,"node":"0123456789abcdef0123456789abcdef","state":"RUNNING","since":"2023-11-14T22:13:25.000Z"},`, ""},
	} {
		args := append(strings.Fields(c.args), "--addr", at)
		code, out, errOut := ran(args...)
		if code != exitOK || squeezed(errOut) != c.errOut {
			t.Errorf("%s: exit code %d, and said\n%s", c.args, code, errOut)
		}
		want := strings.TrimPrefix(c.out, "\n")
		if strings.Contains(c.args, "json") {
			if !strings.HasPrefix(out, want) || !json.Valid([]byte(out)) {
				t.Errorf("%s: got\n%s\nwant JSON that begins\n%s", c.args, out, want)
			}
		} else if squeezed(out) != squeezed(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.args, squeezed(out), squeezed(want))
		}
	}
}

// What goes wrong has the exit code of its kind and a sentence with a next step.
func TestRefusals(t *testing.T) {
	at := served(t, apitest.Sample(), "")
	away := apitest.NewBackend()
	away.Failure = fmt.Errorf("%w: no voter leads", api.ErrNoLeader)
	leaderless := served(t, away, "")
	strange := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(strange.Close)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"job nobody --addr " + at, exitNotFound, "there is no job nobody; `cutwater jobs -a` lists all"},
		{"job 0000 --addr " + at, exitNotFound, "0000 could be one of 3 jobs: flights (00000000), created (00000000), unchecked (00000000); write more"},
		{"cancel fin --addr " + at, exitConflict, "job finished (00000000) is FINISHED already"},
		{"jobs --addr " + leaderless, exitUnreachable, "the cluster has no leader now: no voter leads; `cutwater nodes` shows which nodes are there"},
		{"jobs --addr 127.0.0.1:1", exitUnreachable, "no node answers at 127.0.0.1:1 (--addr): "},
		{"jobs --addr :::", exitUsage, "is no address of a node"},
		{"jobs --addr " + strings.TrimPrefix(strange.URL, "http://"), exitError, "is not a node of Cutwater"},
		{"jobs --data-dir nowhere", exitUnreachable, "no node runs with the data folder nowhere: there is no file nowhere/addresses; start it with `cutwater start --data-dir nowhere`"},
		{"job", exitUsage, "job needs a job: its name, its id, or the beginning of one of them"},
		{"cancel a b", exitUsage, "cancel takes one job, and these are 2: a b"},
		{"cancel --timeout 0s flights --addr " + at, exitUsage, "--detach does not wait"},
		{"completion tcsh", exitUsage, `there is no completion for "tcsh", but for bash, zsh, fish`},
		{"start --bind nowhere", exitUsage, "--bind nowhere is no IP address"},
		{"start --bind 192.0.2.1", exitUsage, "secret"},
		{"start --cluster-name a/b", exitUsage, "the cluster name"},
		{"start --slots 0", exitUsage, "--slots 0: a node needs one at least"},
		{"start --preset fast", exitUsage, "--preset fast is not local, lan or wan"},
		{"start --log-level loud", exitUsage, "it must be debug, info, warn or error"},
		{"start --join :::", exitUsage, ":::"},
		{"start --secret-file nowhere", exitError, "the cluster secret of --secret-file cannot be read"},
	} {
		code, out, errOut := ran(strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.HasPrefix(errOut, "error: ") || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit code %d, want %d; said %q, want %q; printed %q", c.args, code, c.code, errOut, c.want, out)
		}
	}
}

// Flags name the node before the environment does, and that before the data folder;
// without any it is the default address.
func TestWhichNodeIsAsked(t *testing.T) {
	served(t, apitest.NewBackend(), "")
	find := func(args ...string) string {
		found, err := flagsOf(t, args).find()
		if err != nil {
			t.Fatal(err)
		}
		return found.address
	}
	if got := find(); got != defaultAddress {
		t.Errorf("without anything: %s", got)
	}
	for dir, at := range map[string]string{defaultNodeDir: "127.0.0.1:1001", "other": "127.0.0.1:1002"} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), addresses{HTTP: at, PID: 7}.write(dir)); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(); got != "127.0.0.1:1001" {
		t.Errorf("the data folder says 127.0.0.1:1001: %s", got)
	}
	t.Setenv(addrVariable, "127.0.0.1:1003")
	if got := find(); got != "127.0.0.1:1003" {
		t.Errorf("the environment says 127.0.0.1:1003: %s", got)
	}
	if got := find("--data-dir", "other"); got != "127.0.0.1:1002" {
		t.Errorf("the folder that was given says 127.0.0.1:1002: %s", got)
	}
	if got := find("--data-dir", "other", "--addr", "127.0.0.1:1004"); got != "127.0.0.1:1004" {
		t.Errorf("--addr says 127.0.0.1:1004: %s", got)
	}
	if err := os.WriteFile(filepath.Join("other", addressesFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := ran("jobs", "--data-dir", "other"); code != exitError || !strings.Contains(errOut, "does not say where the node is reached") {
		t.Errorf("a damaged file: exit code %d, %s", code, errOut)
	}
	if err := errors.Join(removeAddresses("other"), removeAddresses("other")); err != nil {
		t.Errorf("the file is removed, and again: %v", err)
	}
	if _, err := readAddresses("other"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is no file any more: %v", err)
	}
}

// flagsOf parses the flags that every command of a cluster has.
func flagsOf(t *testing.T, args []string) *nodeFlags {
	t.Helper()
	cmd := &cobra.Command{Use: "x"}
	f := newNodeFlags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// The token is made of the secret, which comes from a file or from the environment,
// and a node that asks for one says so to who has none or another one.
func TestSecret(t *testing.T) {
	const text = "0123456789abcdef"
	s, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	at := served(t, apitest.Sample(), apiToken(s))
	if err := errors.Join(os.WriteFile("right", []byte(text+"\n"), 0o600), os.WriteFile("wrong", []byte(text+"x"), 0o600), os.WriteFile("short", []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag, file, text string
		code             int
		want             string
	}{
		{code: exitError, want: "answers only who knows the secret of its cluster; give the file"},
		{flag: "right"},
		{file: "right"},
		{text: text},
		{flag: "right", file: "wrong", text: "x"},
		{file: "right", text: "x"},
		{flag: "wrong", code: exitError, want: "has another cluster secret than this command"},
		{flag: "short", code: exitError, want: "--secret-file: "},
		{text: "x", code: exitError, want: secretVariable + ": "},
		{file: "nowhere", code: exitError, want: "the cluster secret of " + secretFileVariable + " cannot be read"},
	} {
		t.Setenv(secretFileVariable, c.file)
		t.Setenv(secretVariable, c.text)
		args := []string{"jobs", "--addr", at}
		if c.flag != "" {
			args = append(args, "--secret-file", c.flag)
		}
		if code, _, errOut := ran(args...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%+v: exit code %d, said %q", c, code, errOut)
		}
	}
}

// Shells complete commands, the names of jobs, living ones where no others can be
// meant, and topology files.
func TestCompletion(t *testing.T) {
	at := served(t, apitest.Sample(), "")
	for _, shell := range shells {
		if code, out, errOut := ran("completion", shell); code != exitOK || !strings.Contains(out, "cutwater") {
			t.Errorf("%s: exit code %d, %s", shell, code, errOut)
		}
	}
	for args, want := range map[string]string{
		"cancel --addr " + at:            "created\tCREATED 00000000\nflights\tRUNNING 00000000\nunchecked\tRUNNING 00000000\n:4\n",
		"job flights --addr " + at:       ":4\n",
		"job --addr 127.0.0.1:1":         ":4\n",
		"events --addr " + at + " --job": "created\tCREATED 00000000\nfailed\tFAILED 00000000\nfinished\tFINISHED 00000000\nflights\tRUNNING 00000000\nunchecked\tRUNNING 00000000\n:4\n",
		"run":                            "yaml\nyml\n:8\n",
		"lint":                           "yaml\nyml\n:8\n",
		"deploy --addr " + at:            "yaml\nyml\n:8\n",
		"start --preset":                 "local\nlan\nwan\n:4\n",
		"completion":                     "bash\nzsh\nfish\n:4\n",
	} {
		code, out, _ := ran(append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if code != exitOK || out != want {
			t.Errorf("%s: exit code %d, got %q, want %q", args, code, out, want)
		}
	}
}

// A job is named by its id, its name, or the beginning of one of them, in this order;
// living jobs come first, and of those that ended the newest of the name.
func TestPick(t *testing.T) {
	jobs := []api.Job{
		{ID: "aa01", Name: "old", Status: "FINISHED", CreatedMs: 1}, {ID: "aa02", Name: "old", Status: "FAILED", CreatedMs: 2},
		{ID: "ab03", Name: "orders", Status: "CANCELED", CreatedMs: 3}, {ID: "ab04", Name: "orders", Status: "RUNNING", CreatedMs: 4},
		{ID: "cc05", Name: "orders-daily", Status: "RESTARTING", CreatedMs: 5}, {ID: "dd06", Name: "aa02", Status: "RUNNING", CreatedMs: 6},
		{ID: "ee07", Name: "old-a", Status: "RUNNING", CreatedMs: 7},
	}
	for name, want := range map[string]string{
		"ab03": "ab03", "aa02": "aa02", "old": "aa02", "orders": "ab04", "orders-": "cc05", "cc": "cc05", "ab": "ab04", "ab0": "ab04", "aa01": "aa01",
		"old-": "ee07", "o": "", "x": "", "": "", "ord": "",
	} {
		if got, err := pick(jobs, name); got.ID != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", name, got.ID, err, want)
		}
	}
}

// Ages, numbers of subtasks, and texts that could move a cursor, as people read them.
func TestCells(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	before := func(d time.Duration) string { return stamp(now.Add(-d).UnixMilli()).ago(now) }
	for got, want := range map[string]string{
		before(-time.Hour): "now", before(999 * time.Millisecond): "now", before(time.Second): "1 s ago", before(119 * time.Second): "1 min ago",
		before(47 * time.Hour): "47 h ago", before(49 * time.Hour): "2 d ago", stamp(0).ago(now): "",
		stamp(1_700_000_000_123).String(): "2023-11-14T22:13:20.123Z",
		ranges(nil):                       "", ranges([]uint32{0, 1, 2, 5, 7, 8}): "0-2,5,7-8",
		cell("a\tb\n\x1b[2Jc "): "a b  [2Jc", cell(" \n"): "-",
		nodeID("0a.3|coordinator/j"): "0a", startOf("0a.3|coordinator/j"): "0a.3", shortNode("0123456789.1"): "01234567", shortID("ff"): "ff",
		attemptText(3_000_002): "3.2",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
