package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const heartbeat = `name: heartbeat
checkpointing: {interval: 1s}
operators:
  - uid: beats
    source: {datagen: {schema: {n: int}, rate: 100}}
  - uid: out
    input: beats
    sink: {stdout: {when: at-once}}
`

// BenchmarkProcess measures the built command: from its start to the first record
// out, which is due after 10 ms at its rate, and its memory when it has nearly nothing
// to do.
func BenchmarkProcess(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "cutwater")
	if out, err := exec.Command("go", "build", "-o", binary, "cutwater/cmd/node").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var starts []time.Duration
	var resident []float64
	for range 5 {
		dir := b.TempDir()
		file := filepath.Join(dir, "heartbeat.yaml")
		if err := os.WriteFile(file, []byte(heartbeat), 0o644); err != nil {
			b.Fatal(err)
		}
		c := exec.Command(binary, "run", file)
		out, err := c.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if _, err := lines.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
		starts = append(starts, time.Since(start))
		for range 300 { // three seconds, three checkpoints
			if _, err := lines.ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		}
		resident = append(resident, residentMB(b, c.Process.Pid))
		c.Process.Kill()
		c.Wait()
	}
	slices.Sort(starts)
	slices.Sort(resident)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(starts[len(starts)/2].Microseconds())/1000, "ms/first-record")
	b.ReportMetric(resident[len(resident)/2], "MB-resident")
}

// residentMB is the memory of a process, in MB of 1e6 bytes.
func residentMB(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		var kB float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kB); n == 1 {
			return kB * 1024 / 1e6
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
