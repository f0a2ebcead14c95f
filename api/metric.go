package api

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
