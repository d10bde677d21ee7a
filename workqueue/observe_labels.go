package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// maxLabels bounds Spec.Labels: every combination of their values is a time series.
	maxLabels = 2
	// maxLabelValues bounds those combinations in metrics. Spans and logs have every value.
	maxLabelValues = 100
	// otherLabels stands in metrics for combinations past the bound.
	otherLabels = "_OTHER"
)

// labels are the values of a row's labels, in the order of Spec.Labels.
type labels [maxLabels]string

// labelColumns are a Spec's labels, and where they are among the columns that are written and claimed.
type labelColumns struct {
	names            []string
	written, claimed []int
}

func (s Spec) labelColumns() labelColumns {
	c := labelColumns{names: s.Labels}
	for _, name := range s.Labels {
		is := func(c Column) bool { return c.Name == name }
		c.written = append(c.written, slices.IndexFunc(s.Columns, is))
		c.claimed = append(c.claimed, slices.IndexFunc(s.claimed(), is))
	}
	return c
}

func (s Spec) validateLabels() error {
	if len(s.Labels) > maxLabels {
		return invalid("labels", "has %d columns, at most %d are allowed", len(s.Labels), maxLabels)
	}
	for i, name := range s.Labels {
		c, ok := s.column(name)
		if !ok || c.Type != "text" || c.Internal {
			return invalid("labels", "%q must be one of the columns, of type text and not Internal", name)
		}
		if slices.Contains(s.Labels[:i], name) {
			return invalid("labels", "%q is listed twice", name)
		}
	}
	return nil
}

func pickLabels(columns []int, values []any) (l labels) {
	for i, c := range columns {
		l[i] = labelText(values[c])
	}
	return l
}

// labelText is the text of a value that is written, or of the destination that a value was scanned into.
func labelText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case *string:
		return *v
	case *orEmpty:
		return string(*v)
	case **string:
		if *v == nil {
			return ""
		}
		return **v
	case *any:
		return labelText(*v)
	}
	return fmt.Sprint(v)
}

func (c labelColumns) attributes(l labels) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, len(c.names), len(c.names)+8)
	for i, name := range c.names {
		attributes[i] = attribute.String("txwork."+name, l[i])
	}
	return attributes
}

func (c labelColumns) logged(l labels) []slog.Attr {
	attributes := make([]slog.Attr, len(c.names), len(c.names)+8)
	for i, name := range c.names {
		attributes[i] = slog.String(name, l[i])
	}
	return attributes
}

// A series is one of a metric's time series. It has one more attribute if value is not empty.
type series struct {
	op     operation
	labels labels
	key    attribute.Key
	value  string
}

// A seriesCache keeps the attributes of every series, because making them is most of what a measurement costs.
type seriesCache struct {
	mu      sync.RWMutex
	options map[series]*prepared
	labels  map[labels]bool
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

func (t *telemetry) with(s series) *prepared {
	t.series.mu.RLock()
	option, ok := t.series.options[s]
	t.series.mu.RUnlock()
	if ok {
		return option
	}
	t.series.mu.Lock()
	defer t.series.mu.Unlock()
	return t.newSeries(s)
}

// add adds to a counter of the series.
func (t *telemetry) add(ctx context.Context, counter metric.Int64Counter, n int, s series) {
	if n > 0 {
		counter.Add(ctx, int64(n), t.with(s).add...)
	}
}

func (t *telemetry) newSeries(s series) *prepared {
	c := &t.series
	if c.options == nil {
		c.options, c.labels = map[series]*prepared{}, map[labels]bool{}
	}
	labelled := s.labels != (labels{})
	if labelled && !c.labels[s.labels] && len(c.labels) >= maxLabelValues {
		s.labels = labels{otherLabels, otherLabels}
	}
	if option, ok := c.options[s]; ok {
		return option
	}
	attributes := t.describe(s.op)
	if labelled {
		attributes = append(attributes, t.labels.attributes(s.labels)...)
		c.labels[s.labels] = true
	}
	if s.value != "" {
		attributes = append(attributes, s.key.String(s.value))
	}
	option := prepare(attributes...)
	c.options[s] = option
	return option
}

// countRows adds n rows to a counter. Consecutive rows with the same labels are added at once.
func (t *telemetry) countRows(ctx context.Context, counter metric.Int64Counter, op operation, n int,
	of func(int) labels) {
	t.countSeries(ctx, counter, n, func(i int) series { return series{op: op, labels: of(i)} })
}

func (t *telemetry) countSeries(ctx context.Context, counter metric.Int64Counter, n int, of func(int) series) {
	defer t.contain()
	if n == 0 || !counter.Enabled(ctx) {
		return
	}
	current, same := of(0), 1
	for i := 1; i < n; i++ {
		next := of(i)
		if next != current {
			t.add(ctx, counter, same, current)
			current, same = next, 0
		}
		same++
	}
	t.add(ctx, counter, same, current)
}

// countSettled counts the rows of a settle that it changed, those of them that will be attempted again, and those that
// are dead letters now.
func (t *telemetry) countSettled(ctx context.Context, batch []settlement, done changes) {
	if !t.settled.Enabled(ctx) && !t.dead.Enabled(ctx) && !t.retried.Enabled(ctx) {
		return
	}
	if len(done.ids) < len(batch) {
		batch = slices.DeleteFunc(slices.Clone(batch), func(s settlement) bool {
			return !slices.Contains(done.ids, s.id) && !slices.Contains(done.found, s.id)
		})
	}
	t.countSeries(ctx, t.settled, len(batch), func(i int) series {
		return series{op: opSettle, labels: batch[i].labels, key: outcomeKey,
			value: batch[i].end(done.stand[batch[i].id])}
	})
	t.countReasons(ctx, t.retried, batch, func(s settlement) string { return s.retry(done.stand[s.id]) })
	t.countReasons(ctx, t.dead, batch, func(s settlement) string { return s.deadLetter(done.stand[s.id]) })
}

// countReasons counts the settled rows that have a reason.
func (t *telemetry) countReasons(ctx context.Context, counter metric.Int64Counter, batch []settlement,
	reason func(settlement) string) {
	var counted []series
	for _, s := range batch {
		if value := reason(s); value != "" {
			counted = append(counted, series{op: opSettle, labels: s.labels, key: reasonKey, value: value})
		}
	}
	t.countSeries(ctx, counter, len(counted), func(i int) series { return counted[i] })
}

// countReaped counts expired leases, and what became of their rows.
func (t *telemetry) countReaped(ctx context.Context, r Reaped, dead int) {
	defer t.contain()
	expired := series{op: opReap, key: reasonKey, value: "lease_expired"}
	t.add(ctx, t.expired, r.Requeued+r.Failed, series{op: opReap})
	t.add(ctx, t.retried, r.Requeued, expired)
	t.add(ctx, t.dead, dead, expired)
}

// countMoved counts rows that were redriven or cancelled.
func (t *telemetry) countMoved(ctx context.Context, op operation, n int) {
	defer t.contain()
	t.add(ctx, map[operation]metric.Int64Counter{opRedrive: t.redriven, opCancel: t.cancelled}[op], n, series{op: op})
}

// countPurged counts rows that were deleted from a state.
func (t *telemetry) countPurged(ctx context.Context, state string, n int) {
	defer t.contain()
	t.add(ctx, t.purged, n, series{op: opPurge, key: stateKey, value: state})
}

const (
	errorTypeKey attribute.Key = "error.type"
	reasonKey    attribute.Key = "txwork.reason"
	outcomeKey   attribute.Key = "txwork.outcome"
	stateKey     attribute.Key = "txwork.state"
	answerKey    attribute.Key = "txwork.answer"
)

// end is what became of a settled row: its outcome, or exhausted if that was its last attempt, or cancel if a cancel of
// the row had been asked for.
func (s settlement) end(at standing) string {
	switch kind := s.outcome.kind; {
	case kind == outcomeFail || at.status != Failed:
		return kind.String()
	case at.cancelled:
		return outcomeCancel.String()
	}
	return "exhausted"
}

// retry is why a settled row will be attempted again; empty if it will not, or if no attempt has failed.
func (s settlement) retry(at standing) string {
	if s.outcome.kind == outcomeRetry && at.status == Ready {
		return "error"
	}
	return ""
}

// deadLetter is why a settled row is a dead letter; empty if it is none.
func (s settlement) deadLetter(at standing) string {
	switch {
	case at.status != Failed || at.cancelled:
		return ""
	case s.outcome.kind == outcomeFail:
		return "permanent"
	}
	return "exhausted"
}

// errorTypeOf is the error of a handler as metrics and spans report it: its Go type.
func errorTypeOf(err error) string {
	if err == errGoexit { // errors.Is would call the application's error
		return "goexit"
	}
	return fmt.Sprintf("%T", err)
}
