package node_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cutwater/connector/file"
	"cutwater/connector/filesink"
	"cutwater/node"
	"cutwater/stream"
	"cutwater/stream/row"
	"cutwater/topology"
)

// flight is a record of one's own type; its codec is found by itself.
type flight struct {
	Ms     int64
	Origin string
}

// The rows of the source and of the sink.
var (
	flightRow = &row.Schema{Fields: []row.Field{
		{Name: "date", Kind: row.Timestamp, Layout: "2006/01/02 15:04"},
		{Name: "origin", Kind: row.String},
	}}
	countRow = &row.Schema{Fields: []row.Field{
		{Name: "origin", Kind: row.String},
		{Name: "month", Kind: row.Timestamp},
		{Name: "flights", Kind: row.Int},
	}}
)

// counting is an aggregator: it counts in an int64 and makes a row of it.
type counting struct{ row *row.Builder }

func newCounting() *counting { return &counting{row.NewBuilder(len(countRow.Fields))} }

func (c *counting) Init(n *int64)                { *n = 0 }
func (c *counting) Add(n *int64, _ flight) error { *n++; return nil }
func (c *counting) Merge(n, other *int64) error  { *n += *other; return nil }

func (c *counting) Result(origin string, w stream.Interval, n *int64) (row.Row, error) {
	c.row.Reset()
	c.row.String(0, origin)
	c.row.Ms(1, w.StartMs)
	c.row.Int(2, *n)
	return c.row.Row(), nil
}

// flightsPerMonth is a topology in Go: it counts flights per airport in windows of
// 30 days, and leaves small airports out.
func flightsPerMonth(input, output string) (*stream.Program, error) {
	source, err := file.New(file.Config{Path: input, Schema: flightRow})
	if err != nil {
		return nil, err
	}
	sink, err := filesink.New(filesink.Config{Dir: output, Format: filesink.CSV, Schema: countRow})
	if err != nil {
		return nil, err
	}
	t := stream.New("flights-per-month").Parallelism(2)
	rows := stream.From(t, "flights", source, stream.WithCodec(row.Codec(flightRow)),
		stream.EventTime(func(r row.Row) int64 { return r.Ms(0) }, 0))
	flights := stream.Map(rows, "typed", func(r row.Row) flight { return flight{r.Ms(0), r.String(1)} })
	byOrigin := stream.KeyBy(flights, func(f flight) string { return f.Origin })
	counts := stream.Window(byOrigin, "counts", stream.Tumbling(30*24*time.Hour), newCounting, stream.WithCodec(row.Codec(countRow)))
	large := stream.Filter(counts, "large", func(r row.Row) bool { return r.Int(2) > 340 })
	stream.To(large, "out", sink)
	return t.Build()
}

// A program of one's own that runs a topology in Go. With folders that stay, instead
// of temporary ones, the same program started again goes on from its last checkpoint;
// Ctrl-C takes one more. ProcessOptions.Event would show what happens meanwhile.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "flights-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	program, err := flightsPerMonth("../examples/flights/flights.csv", filepath.Join(dir, "out"))
	if err != nil {
		fmt.Println(err)
		return
	}
	settings, err := topology.Settings("settings", []byte("checkpointing: {interval: 1s}"), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := node.Run(ctx, node.ProcessOptions{DataDir: filepath.Join(dir, "data")}, program, settings)
	fmt.Println(status, err)

	files, _ := filepath.Glob(filepath.Join(dir, "out", "*.csv"))
	var lines []string
	for _, f := range files {
		text, _ := os.ReadFile(f)
		lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")[1:]...)
	}
	slices.Sort(lines)
	fmt.Println(strings.Join(lines, "\n"))
	// Output:
	// FINISHED <nil>
	// DFW,2001-01-18T00:00:00Z,365
	// DFW,2001-02-17T00:00:00Z,376
	// ORD,2001-01-18T00:00:00Z,355
	// ORD,2001-02-17T00:00:00Z,381
}
