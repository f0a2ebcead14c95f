package chaos

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// rowsPerSecond is the rate of the job's source.
	rowsPerSecond = 600
	// keys are those of its rows.
	keys = 40
)

// job is the job of a round: it counts rows by key.
type job struct {
	name, dir string
	rows      map[string]int // by key
}

// newJob writes the input, which lasts for that time, and the topology.
func newJob(dir, name string, seed uint64, parallelism int, span time.Duration) (*job, error) {
	j := &job{name: name, dir: filepath.Join(dir, name), rows: map[string]int{}}
	rng := rand.New(rand.NewPCG(seed, 1))
	var input strings.Builder
	input.WriteString("key,padding\n")
	padding := strings.Repeat("x", 60)
	for range int(span.Seconds() * rowsPerSecond) {
		key := fmt.Sprintf("k%02d", rng.IntN(keys))
		j.rows[key]++
		input.WriteString(key + "," + padding + "\n")
	}
	backend := []string{"heap", "bolt"}[seed%2]
	topology := fmt.Sprintf(`name: %s
parallelism: %d
checkpointing: {interval: 500ms, timeout: 20s, tolerable-failures: 3, dir: checkpoints, incremental: true, inline-threshold: 0B}
state: {backend: %s}
restart: {max-backoff: 1s}
operators:
  - uid: in
    source: {file: {path: in.csv, format: csv, rate: %d, split-size: 32KiB, schema: {key: string, padding: string}}}
  - uid: counts
    input: in
    key-by: key
    aggregate: {n: count()}
  - uid: out
    input: counts
    sink: {file: {path: out, format: csv}}
`, name, parallelism, backend, rowsPerSecond)
	if err := os.Mkdir(j.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(j.dir, "in.csv"), []byte(input.String()), 0o644); err != nil {
		return nil, err
	}
	return j, os.WriteFile(j.topology(), []byte(topology), 0o644)
}

func (j *job) topology() string { return filepath.Join(j.dir, "topology.yaml") }

// ended reports whether the job has finished, by the output of jobs; the error is that
// it ended otherwise.
func (j *job) ended(list string) (bool, error) {
	var jobs []struct{ Name, Status, Failure string }
	if json.Unmarshal([]byte(list), &jobs) != nil {
		return false, nil // the node had no answer
	}
	for _, one := range jobs {
		switch {
		case one.Name != j.name || !isEnded(one.Status):
		case one.Status != "FINISHED":
			return true, fmt.Errorf("the job is %s: %s", one.Status, one.Failure)
		default:
			return true, nil
		}
	}
	return false, nil
}

// total is how many rows the input has.
func (j *job) total() (n int) {
	for _, rows := range j.rows {
		n += rows
	}
	return n
}

// committed is how many counts are visible.
func (j *job) committed() (n int, err error) {
	counts, err := j.counts()
	for _, c := range counts {
		n += len(c)
	}
	return n, err
}

// counts are the visible ones, by key.
func (j *job) counts() (map[string][]int, error) {
	parts, err := filepath.Glob(filepath.Join(j.dir, "out", "part-*"))
	if err != nil {
		return nil, err
	}
	counts := map[string][]int{}
	for _, part := range parts {
		if err := readCounts(part, counts); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// exact is what is wrong with the visible output: of each key, each count from 1 to
// the number of its rows must be there once. Whole: nothing may be missing.
func (j *job) exact(whole bool) error {
	counts, err := j.counts()
	if err != nil {
		return err
	}
	for key, rows := range j.rows {
		got := counts[key]
		slices.Sort(got)
		for i, n := range got {
			switch {
			case i > 0 && n == got[i-1]:
				return fmt.Errorf("count %d of key %s is there twice", n, key)
			case n < 1 || n > rows:
				return fmt.Errorf("count %d of key %s is there, which has %d rows", n, key, rows)
			}
		}
		if whole && len(got) != rows {
			return fmt.Errorf("key %s has %d rows, and only %d counts are there", key, rows, len(got))
		}
		delete(counts, key)
	}
	if len(counts) > 0 {
		return fmt.Errorf("there are keys that the input does not have: %v", counts)
	}
	return nil
}

// readCounts adds the rows of a file, which must be whole.
func readCounts(path string, into map[string][]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil || len(records) < 2 || !slices.Equal(records[0], []string{"key", "n"}) {
		return fmt.Errorf("%s is not a whole file of counts: %v, %v", path, err, records)
	}
	for _, r := range records[1:] {
		n, err := strconv.Atoi(r[1])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		into[r[0]] = append(into[r[0]], n)
	}
	return nil
}
