package checkpoint

import (
	"math"
	"slices"
)

// seriesWindow is how many of the newest values the percentiles are made of.
const seriesWindow = 1000

// Series summarises a sequence of values: minimum, maximum and average over all
// of them, percentiles over the newest 1000. The zero value is empty.
type Series struct {
	Count         int
	Min, Max, Sum int64
	window        []int64 // a ring once it is full
}

// NewSeries returns the series of the values.
func NewSeries(values ...int64) Series {
	var s Series
	for _, v := range values {
		s.add(v)
	}
	return s
}

func (s *Series) add(v int64) {
	if s.Count == 0 {
		s.Min, s.Max = v, v
	}
	s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	if len(s.window) < seriesWindow {
		s.window = append(s.window, v)
	} else {
		s.window[s.Count%seriesWindow] = v
	}
	s.Sum += v
	s.Count++
}

// Avg returns the average, 0 of nothing.
func (s *Series) Avg() int64 {
	if s.Count == 0 {
		return 0
	}
	return s.Sum / int64(s.Count)
}

// Percentile returns the p-th percentile, p from 0 to 100, interpolated between
// neighbours as Flink does; NaN of nothing.
func (s *Series) Percentile(p float64) float64 {
	return percentile(slices.Sorted(slices.Values(s.window)), p)
}

func percentile(sorted []int64, p float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	at := p / 100 * float64(n+1)
	below := int(at)
	if below < 1 {
		return float64(sorted[0])
	}
	if below >= n {
		return float64(sorted[n-1])
	}
	low, high := float64(sorted[below-1]), float64(sorted[below])
	return low + (at-float64(below))*(high-low)
}

func (s Series) clone() Series {
	s.window = slices.Clone(s.window)
	return s
}
