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
	})
}
