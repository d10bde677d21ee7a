package workqueue

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A row on its way through a handler and a settle is told without an allocation where no SDK traces.
func TestTellingOfARowAllocatesNothing(t *testing.T) {
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	spec := Spec{Table: "measured", Columns: []Column{{Name: "topic", Type: "text", NotNull: true}},
		Labels: []string{"topic"}}
	table, err := Open(spec, Telemetry{MeterProvider: provider, TracerProvider: tracenoop.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	row := &delivery{claimedRow: &claimedRow{Row: Row{ID: uuid.New(), DueAt: time.Now()},
		labels: telemetry.Labels{"mail"}}}
	batch := make(settlements, 100)
	for i := range batch {
		batch[i] = &settlement{outcome: acked, row: row.claimedRow, became: telemetry.OutcomeAck}
	}
	for _, c := range []struct {
		name string
		most float64
		tell func()
	}{
		{"a handler", 0, func() {
			_, call := table.telemetry.Handle(t.Context(), row.row(), time.Now(), time.Second)
			call.End(telemetry.Handled{})
		}},
		{"a settle", 0, func() {
			for i := range batch {
				batch.Row(i)
			}
		}},
	} {
		c.tell() // creates the series
		if n := testing.AllocsPerRun(100, c.tell); n > c.most {
			t.Errorf("%s makes %v allocations, want at most %v", c.name, n, c.most)
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
