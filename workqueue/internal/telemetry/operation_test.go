package telemetry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/txwork/txwork/workqueue/metrics"
)

// An operation without a name would be counted under an empty name.
func TestEveryOperationHasItsNames(t *testing.T) {
	seen := map[string]bool{}
	for op := range operationCount {
		c := conventions[op]
		if c.name == "" || seen[c.name] {
			t.Errorf("operation %d: %+v", op, c)
		}
		seen[c.name] = true
	}
}

// Everything that has a name of the conventions is used as they define it: metrics with their units, attributes, types
// of operations. All other names are in our own namespace.
func TestNamesAreThoseOfTheConventions(t *testing.T) {
	units := map[string]string{}
	for _, m := range []interface{ Name() string }{
		messagingconv.ClientOperationDuration{}, messagingconv.ProcessDuration{}, messagingconv.ClientSentMessages{},
		messagingconv.ClientConsumedMessages{},
	} {
		units[m.Name()] = m.(interface{ Unit() string }).Unit()
	}
	keys := []attribute.Key{
		semconv.MessagingSystemKey, semconv.MessagingDestinationNameKey, semconv.MessagingOperationNameKey,
		semconv.MessagingOperationTypeKey, semconv.ErrorTypeKey,
	}
	for _, m := range metrics.Workers() {
		if unit, theirs := units[m.Name]; theirs && unit != m.Unit || !theirs && !strings.HasPrefix(m.Name, "txwork.") {
			t.Errorf("%s in %s is not in the conventions", m.Name, m.Unit)
		}
		for _, a := range m.Attributes {
			if !slices.Contains(keys, attribute.Key(a)) && !strings.HasPrefix(a, "txwork.") {
				t.Errorf("%s has the attribute %s, which is not in the conventions", m.Name, a)
			}
		}
	}
	types := []attribute.KeyValue{
		semconv.MessagingOperationTypeSend, semconv.MessagingOperationTypeReceive,
		semconv.MessagingOperationTypeProcess, semconv.MessagingOperationTypeSettle,
	}
	for _, c := range conventions {
		if c.typ != "" && !slices.Contains(types, semconv.MessagingOperationTypeKey.String(c.typ)) {
			t.Errorf("%s has the type %s, which is not in the conventions", c.name, c.typ)
		}
	}
}

type fakeRows []Row

func (r fakeRows) Len() int      { return len(r) }
func (r fakeRows) Row(i int) Row { return r[i] }

// Metrics of a claim and of a settle allocate nothing.
func TestMeasuringAnEventAllocatesNothing(t *testing.T) {
	r, err := New(Options{Table: "measured", Labels: []string{"topic"},
		MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))})
	if err != nil {
		t.Fatal(err)
	}
	rows := make(fakeRows, 100)
	for i := range rows {
		rows[i] = Row{Labels: Labels{"mail"}, Outcome: []string{OutcomeAck, OutcomeAbandon, OutcomeExhausted}[i%3],
			Reason: []string{"", Failed, Exhausted}[i%3]}
	}
	for _, op := range []Operation{Claim, Settle} {
		measure := func() func() {
			e := Event{Operation: op, Rows: rows, Duration: time.Second}
			return func() { r.measure(t.Context(), e) }
		}()
		measure() // creates the series
		if n := testing.AllocsPerRun(100, measure); n > 0 {
			t.Errorf("%v makes %v allocations", op, n)
		}
	}
}

// A caller of an arrival that passes too few values loses its labels, and not its message.
func TestTooFewValuesDoNoHarm(t *testing.T) {
	t.Parallel()
	r, err := New(Options{Table: "t", Labels: []string{"topic"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Pick([]int{3}, []any{"mail"}); got != (Labels{}) {
		t.Errorf("labels %q, want none", got)
	}
}
