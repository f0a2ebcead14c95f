package bench

import (
	"testing"

	"cutwater/stream/row"
	"cutwater/topology/expression"
)

// flight is a row as a program would have it that knows its columns.
type flight struct {
	delay, distance int64
	origin          string
}

// BenchmarkExpression evaluates a condition of a topology file on rows, beside
// the same condition in Go on structs.
func BenchmarkExpression(b *testing.B) {
	schema := &row.Schema{Fields: []row.Field{
		{Name: "delay", Kind: row.Int}, {Name: "distance", Kind: row.Int}, {Name: "origin", Kind: row.String}}}
	condition, err := expression.CompileCondition(`delay + distance > 1500 && origin == "DTW"`, schema)
	if err != nil {
		b.Fatal(err)
	}
	const n, rounds = 1000, 1000
	rows, flights := make([]row.Row, n), make([]flight, n)
	for i := range flights {
		f := flight{int64(i % 97), int64(mix(uint64(i)) % 3000), "DTW"}
		if i%3 == 0 {
			f.origin = "ORD"
		}
		flights[i] = f
		rows[i] = row.Row{Cells: []uint64{uint64(f.delay), uint64(f.distance), uint64(len(f.origin))}, Text: f.origin}
	}
	var frame expression.Frame
	ours, hand := 0, 0
	evaluate := func() {
		ours = 0
		for range rounds {
			for i := range rows {
				frame.Begin(&rows[i])
				if condition.True(&frame) {
					ours++
				}
			}
		}
	}
	byHand := func() {
		hand = 0
		for range rounds {
			for i := range flights {
				if f := &flights[i]; f.delay+f.distance > 1500 && f.origin == "DTW" {
					hand++
				}
			}
		}
	}
	hold(b, "allocs/record", testing.AllocsPerRun(2, evaluate), 0)
	beside(b, n*rounds, evaluate, byHand, 25)
	if ours != hand || ours == 0 {
		b.Fatalf("%d rows, by hand %d", ours, hand)
	}
}
