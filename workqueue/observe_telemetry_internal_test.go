package workqueue

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

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

// Metrics of a row on its way through a handler and a settle allocate nothing.
func TestMeasuringARowAllocatesNothing(t *testing.T) {
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	spec := Spec{Table: "measured", Columns: []Column{{Name: "topic", Type: "text", NotNull: true}},
		Labels: []string{"topic"}}
	table, err := Open(spec, Telemetry{MeterProvider: provider, TracerProvider: tracenoop.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	tel, row := table.telemetry, claimedRow{Row: Row{ID: uuid.New(), DueAt: time.Now()}, labels: labels{"mail"}}
	batch, done := make([]settlement, 100), changes{ids: make([]uuid.UUID, 100)}
	for i := range batch {
		batch[i] = settlement{outcome: acked, labels: row.labels}
	}
	for name, measure := range map[string]func(){
		"the start of a handler": func() { tel.starting(t.Context(), row, time.Now()) },
		"the end of a handler":   func() { tel.processed(t.Context(), noSpan, row, acked, "", time.Second) },
		"a claim": func() {
			tel.countRows(t.Context(), tel.consumed, opClaim,
				100, func(int) labels { return row.labels })
		},
		"a settle":     func() { tel.countSettled(t.Context(), batch, done) },
		"an operation": func() { tel.measure(t.Context(), opSettle, Event{Duration: time.Second}) },
	} {
		measure() // creates the series
		if n := testing.AllocsPerRun(100, measure); n > 0 {
			t.Errorf("%s makes %v allocations", name, n)
		}
	}
}

// The database's clock follows the reading that was the least uncertain, until that reading is old.
func TestTheDatabasesClock(t *testing.T) {
	var c dbClock
	start := time.Now()
	if got := c.of(start); !got.Equal(start) {
		t.Errorf("without a reading it is %v, want our own time", got.Sub(start))
	}
	at := func(after time.Duration) time.Time { return start.Add(after) }
	skew := func() time.Duration { return c.of(start).Sub(start) }
	c.read(at(0), at(time.Second), at(time.Hour+500*time.Millisecond)) // half a second of uncertainty
	if skew() != time.Hour {
		t.Errorf("it is %v ahead, want an hour", skew())
	}
	c.read(at(2*time.Second), at(2*time.Second+2*time.Millisecond), at(2*time.Second+time.Hour+11*time.Millisecond))
	if skew() != time.Hour+10*time.Millisecond {
		t.Errorf("it is %v ahead, want what the better reading told", skew())
	}
	c.read(at(3*time.Second), at(4*time.Second), at(3*time.Second))
	if skew() != time.Hour+10*time.Millisecond {
		t.Errorf("it is %v ahead: a reading that waited for a connection counted", skew())
	}
	c.read(at(1000*time.Second), at(1001*time.Second), at(1000*time.Second+500*time.Millisecond))
	if skew() != 0 {
		t.Errorf("it is %v ahead, want what the new reading told", skew())
	}
}
