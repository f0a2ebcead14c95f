package api

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

// Metrics are written as Prometheus reads them: one header for each name, text
// escaped, samples not twice, and nothing whose name is none.
func TestMetricsFormat(t *testing.T) {
	got := string(appendMetrics(nil, []Metric{
		{Name: "b_total", Help: "Two\nlines and a \\.", Kind: Counter, Samples: []Sample{{Value: 1e15}, {[]Label{{"job_name", "a\"b\\c\nd"}, {"x", "\xff"}}, 0.5}}},
		{Name: "a", Help: "First.", Kind: Gauge, Samples: []Sample{{[]Label{{"x", "1"}}, math.NaN()}, {[]Label{{"x", "2"}}, math.Inf(1)}}},
		{Name: "b_total", Help: "Once more.", Kind: Counter, Samples: []Sample{{Value: 2}, {[]Label{{"x", "3"}}, math.Inf(-1)}}},
		{Name: "b_total_empty", Kind: Gauge},
		{Name: "1a", Kind: Gauge, Samples: []Sample{{Value: 1}}},
		{Name: "a-b", Kind: Gauge, Samples: []Sample{{Value: 1}}},
		{Name: "", Kind: Gauge, Samples: []Sample{{Value: 1}}},
	}))
	want := `# HELP a First.
# TYPE a gauge
a{x="1"} NaN
a{x="2"} +Inf
# HELP b_total Two\nlines and a \\.
# TYPE b_total counter
b_total 1e+15
b_total{job_name="a\"b\\c\nd",x="` + "\uFFFD" + `"} 0.5
b_total{x="3"} -Inf
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// sampleLine is a line of the text format that holds a value.
var sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="(\\["\\n]|[^"\\\n])*",?)*\})? (NaN|[+-]Inf|-?[0-9.]+(e[+-]?[0-9]+)?)$`)

// FormatProblem returns what is wrong with a text of metrics, or "".
func FormatProblem(text string) string {
	described, typed, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
	if !strings.HasSuffix(text, "\n") {
		return "no newline at the end"
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			if len(words) < 4 || described[words[2]] {
				return "described twice or not: " + line
			}
			described[words[2]] = true
		case strings.HasPrefix(line, "# TYPE "):
			if len(words) != 4 || typed[words[2]] || words[3] != "counter" && words[3] != "gauge" {
				return "typed twice or not: " + line
			}
			typed[words[2]] = true
		default:
			m := sampleLine.FindStringSubmatch(line)
			switch {
			case m == nil:
				return "not a sample: " + line
			case !described[m[1]] || !typed[m[1]]:
				return "before its header: " + line
			case seen[m[1]+m[2]]:
				return "twice: " + line
			}
			seen[m[1]+m[2]] = true
		}
	}
	return ""
}
