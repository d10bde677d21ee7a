package telemetry

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// MaxLabels bounds Spec.Labels: every combination of their values is a time series.
	MaxLabels = 2
	// maxLabelValues bounds those combinations in metrics. Spans and logs have every value.
	maxLabelValues = 100
	// otherLabels stands in metrics for combinations past the bound.
	otherLabels = "_OTHER"
)

// Labels are the values of a row's labels, in the order of Spec.Labels.
type Labels [MaxLabels]string

// Pick takes the labels out of the values of columns.
func Pick(columns []int, values []any) (l Labels) {
	for i, c := range columns {
		l[i] = LabelText(values[c])
	}
	return l
}

// Pick is [Pick] for values of a caller who cannot be trusted to have all of them.
func (r *Recorder) Pick(columns []int, values []any) Labels {
	defer r.contain()
	return Pick(columns, values)
}

// Labelled are destinations that know the text of their label.
type Labelled interface{ LabelText() string }

// LabelText is the text of a value that is written, or of the destination that a value was scanned into.
func LabelText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case *string:
		return *v
	case **string:
		if *v == nil {
			return ""
		}
		return **v
	case *any:
		return LabelText(*v)
	case Labelled:
		return v.LabelText()
	}
	return fmt.Sprint(v)
}

// attributes has room for more.
func (r *Recorder) attributes(l Labels) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, len(r.labels), len(r.labels)+8)
	for i, name := range r.labels {
		attributes[i] = attribute.String("txwork."+name, l[i])
	}
	return attributes
}

// A series is one of a metric's time series. It has one more attribute if value is not empty.
type series struct {
	op     Operation
	labels Labels
	key    attribute.Key
	value  string
}

// A seriesCache keeps the attributes of every series, because making them is most of what a measurement costs.
type seriesCache struct {
	mu      sync.RWMutex
	options map[series]*prepared
	labels  map[Labels]bool
}

// prepared are a series' attributes as the arguments of a measurement, which then allocates nothing.
type prepared struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func prepare(attributes ...attribute.KeyValue) *prepared {
	option := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return &prepared{[]metric.AddOption{option}, []metric.RecordOption{option}}
}

func (r *Recorder) with(s series) *prepared {
	r.series.mu.RLock()
	option, ok := r.series.options[s]
	r.series.mu.RUnlock()
	if ok {
		return option
	}
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	return r.newSeries(s)
}

// add adds to a counter of the series.
func (r *Recorder) add(ctx context.Context, counter metric.Int64Counter, n int, s series) {
	if n > 0 {
		counter.Add(ctx, int64(n), r.with(s).add...)
	}
}

func (r *Recorder) newSeries(s series) *prepared {
	c := &r.series
	if c.options == nil {
		c.options, c.labels = map[series]*prepared{}, map[Labels]bool{}
	}
	labelled := s.labels != (Labels{})
	if labelled && !c.labels[s.labels] && len(c.labels) >= maxLabelValues {
		s.labels = Labels{otherLabels, otherLabels}
	}
	if option, ok := c.options[s]; ok {
		return option
	}
	attributes := r.describe(s.op)
	if labelled {
		attributes = append(attributes, r.attributes(s.labels)...)
		c.labels[s.labels] = true
	}
	if s.value != "" {
		attributes = append(attributes, s.key.String(s.value))
	}
	option := prepare(attributes...)
	c.options[s] = option
	return option
}

const (
	errorTypeKey attribute.Key = "error.type"
	reasonKey    attribute.Key = "txwork.reason"
	outcomeKey   attribute.Key = "txwork.outcome"
	stateKey     attribute.Key = "txwork.state"
	answerKey    attribute.Key = "txwork.answer"
)
