package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/txwork/txwork/internal/contain"

	"github.com/jackc/pgx/v5/pgconn"
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

// labelText is a value as it is written, or as what it was scanned into points to.
func labelText(v any) string {
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

// A series is one of a metric's time series: what it is about, and one attribute more where value is not empty.
type series struct {
	op     operation
	labels labels
	key    attribute.Key
	value  string
}

// A seriesCache keeps the attributes of every series: to make them is most of what a measurement costs.
type seriesCache struct {
	mu      sync.RWMutex
	options map[series]metric.MeasurementOption
	labels  map[labels]bool
}

func (t *telemetry) with(s series) metric.MeasurementOption {
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

func (t *telemetry) newSeries(s series) metric.MeasurementOption {
	c := &t.series
	if c.options == nil {
		c.options, c.labels = map[series]metric.MeasurementOption{}, map[labels]bool{}
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
	option := metric.WithAttributeSet(attribute.NewSet(attributes...))
	c.options[s] = option
	return option
}

// countRows adds n rows to a counter, those that stand together under the same labels at once.
func (t *telemetry) countRows(ctx context.Context, counter metric.Int64Counter, op operation, n int, of func(int) labels) {
	t.countSeries(ctx, counter, n, func(i int) series { return series{op: op, labels: of(i)} })
}

func (t *telemetry) countSeries(ctx context.Context, counter metric.Int64Counter, n int, of func(int) series) {
	defer t.contain()
	if n == 0 || !counter.Enabled(ctx) {
		return
	}
	current, same := of(0), int64(1)
	for i := 1; i < n; i++ {
		next := of(i)
		if next != current {
			counter.Add(ctx, same, t.with(current))
			current, same = next, 0
		}
		same++
	}
	counter.Add(ctx, same, t.with(current))
}

// countSettled counts the rows of a settle that it changed, and those of them that are dead letters now.
func (t *telemetry) countSettled(ctx context.Context, batch []settlement, done changes) {
	if !t.settled.Enabled(ctx) && !t.dead.Enabled(ctx) {
		return
	}
	if len(done.ids) < len(batch) {
		batch = slices.DeleteFunc(slices.Clone(batch), func(s settlement) bool {
			return !slices.Contains(done.ids, s.id) && !slices.Contains(done.found, s.id)
		})
	}
	t.countSeries(ctx, t.settled, len(batch), func(i int) series {
		return series{op: opSettle, labels: batch[i].labels, key: "txwork.outcome", value: batch[i].end(done.stand[batch[i].id])}
	})
	reason := func(s settlement) string { return s.deadLetter(done.stand[s.id]) }
	dead := slices.DeleteFunc(slices.Clone(batch), func(s settlement) bool { return reason(s) == "" })
	t.countSeries(ctx, t.dead, len(dead), func(i int) series {
		return series{op: opSettle, labels: dead[i].labels, key: reasonKey, value: reason(dead[i])}
	})
}

// countReaped counts expired leases and the dead letters among them.
func (t *telemetry) countReaped(ctx context.Context, r Reaped, dead int) {
	defer t.contain()
	if n := r.Requeued + r.Failed; n > 0 {
		t.expired.Add(ctx, int64(n), t.with(series{op: opReap}))
	}
	if dead > 0 {
		t.dead.Add(ctx, int64(dead), t.with(series{op: opReap, key: reasonKey, value: "lease_expired"}))
	}
}

const (
	errorTypeKey attribute.Key = "error.type"
	reasonKey    attribute.Key = "txwork.reason"
)

// end is what became of a settled row: its outcome, or exhausted where that was its last attempt, or cancel where somebody had
// asked for that.
func (s settlement) end(at standing) string {
	switch kind := s.outcome.kind; {
	case kind == outcomeFail || at.status != Failed:
		return kind.String()
	case at.cancelled:
		return outcomeCancel.String()
	}
	return "exhausted"
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

// errorType is an operation's error as metrics and spans tell it: one of few values. It is empty without an error.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	if pg, ok := contain.As[*pgconn.PgError](err); ok {
		return pg.Code
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{ErrLeaseLost, "lease_lost"}, {ErrGone, "gone"}, {ErrInvalid, "invalid"},
		{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"},
	} {
		if contain.Is(err, known.err) {
			return known.name
		}
	}
	if _, ok := contain.As[*pgconn.ConnectError](err); ok {
		return "connect"
	}
	return "_OTHER"
}

// errorTypeOf is a handler's error likewise: its Go type.
func errorTypeOf(err error) string {
	if err == errGoexit { // errors.Is would call the application's error
		return "goexit"
	}
	return fmt.Sprintf("%T", err)
}
