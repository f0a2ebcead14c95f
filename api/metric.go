package api

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// MetricKind is how Prometheus reads a metric.
type MetricKind string

// Kinds of metrics.
const (
	// Counter only grows, until the process ends.
	Counter MetricKind = "counter"
	// Gauge goes up and down.
	Gauge MetricKind = "gauge"
)

// Metric is one metric with all of its samples.
type Metric struct {
	// Name consists of letters, digits and underscores: flink_ and Flink's name where
	// Flink has the metric, else cutwater_.
	Name string
	// Help is one sentence.
	Help    string
	Kind    MetricKind
	Samples []Sample
}

// Sample is a metric's value for one set of labels.
type Sample struct {
	Labels []Label
	Value  float64
}

// Label is a name, of letters, digits and underscores, and any text.
type Label struct{ Name, Value string }

// metricsType names the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

func metricsRoute() route {
	return route{method: http.MethodGet, path: "/metrics", doc: "Metrics of this node and of the jobs that it coordinates, as Prometheus reads them.",
		content: metricsType, maxBody: maxBody, status: http.StatusOK, serve: (*call).metrics}
}

func (c *call) metrics() error {
	all := append(c.ownMetrics(), c.jobMetrics()...)
	all = append(all, c.Backend.Metrics()...)
	c.w.Header().Set("Content-Type", metricsType)
	_, _ = c.w.Write(appendMetrics(nil, all))
	return nil
}

// appendMetrics writes metrics, sorted by name. Those of one name become one; what
// could not be read, a name that is none or a sample that is there already, is left
// out.
func appendMetrics(b []byte, all []Metric) []byte {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y Metric) int { return cmp.Compare(x.Name, y.Name) })
	current, seen := "", map[string]bool{}
	for _, m := range all {
		if !isName(m.Name) || len(m.Samples) == 0 {
			continue
		}
		if m.Name != current {
			current = m.Name
			clear(seen)
			b = append(b, "# HELP "+m.Name+" "+escapeHelp.Replace(strings.ToValidUTF8(m.Help, "\uFFFD"))+"\n"...)
			b = append(b, "# TYPE "+m.Name+" "+string(m.Kind)+"\n"...)
		}
		for _, s := range m.Samples {
			name := appendSampleName(nil, m.Name, s.Labels)
			if seen[string(name)] {
				continue
			}
			seen[string(name)] = true
			b = append(b, name...)
			b = append(b, ' ')
			b = append(b, number(s.Value)...)
			b = append(b, '\n')
		}
	}
	return b
}

func appendSampleName(b []byte, name string, labels []Label) []byte {
	b = append(b, name...)
	if len(labels) == 0 {
		return b
	}
	b = append(b, '{')
	for i, l := range labels {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, l.Name...)
		b = append(b, `="`...)
		b = append(b, escapeLabel.Replace(strings.ToValidUTF8(l.Value, "\uFFFD"))...)
		b = append(b, '"')
	}
	return append(b, '}')
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// number is a value as Prometheus writes it.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func isName(s string) bool {
	rest := bytes.TrimLeft([]byte(s), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789:")
	return s != "" && len(rest) == 0 && (s[0] < '0' || s[0] > '9')
}
