package timers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/timers"
)

func TestTimersConform(t *testing.T) {
	t.Parallel()
	nominal := time.Date(2030, 2, 28, 23, 59, 59, 999_999_000, time.UTC)
	conformance.Run(t, conformance.Case{
		Spec: timers.Spec(""),
		DDL:  timers.DDL,
		Values: func(n int) []any {
			values := []any{fmt.Sprintf("order %d", n), "order.expired", []byte{0, byte(n), '"', '\\', 0xff}, nominal,
				1, nil}
			if n%3 == 0 {
				values[5] = "nightly"
			}
			return values
		},
		Samples: map[string]conformance.Sample{
			"key": {Value: "kept"},
			"topic": {Value: "kept.topic", Unbounded: "Go and timers_set bound it, since every statement that writes " +
				"would parse a CHECK, see ADR 0021"},
			"payload":    {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: "each program sets its own MaxPayload"},
			"fire_at":    {Value: nominal.AddDate(1, 0, 0)},
			"generation": {Value: 5},
			"schedule":   {Value: "nightly", Unbounded: "a scheduler writes the name of a schedule, which is bounded"},
		},
	})
}
