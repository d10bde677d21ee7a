package periodic_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/workqueue/periodic"
)

// byPut is why texts of a schedule have no CHECK.
const byPut = "only Put writes it, which checks it"

// at is a time of its own to the microsecond.
var at = time.Date(2030, 2, 28, 23, 59, 59, 999_999_000, time.UTC)

func TestTablesOfSchedulesConform(t *testing.T) {
	t.Parallel()
	spec := periodic.Spec("", "runs_schedule")
	spec.MaxAttempts = 10 // the suite uses them up
	conformance.Run(t, conformance.Case{
		Spec: spec,
		Values: func(n int) []any {
			return []any{fmt.Sprint(n), "@daily", "UTC", "once", 0, 0, "allow", 0, []byte{}, false, nil, nil, nil, 0, 0,
				nil, nil, 0, nil, nil}
		},
		Samples: map[string]conformance.Sample{
			"name":        {Value: "kept", Unbounded: byPut},
			"expr":        {Value: "*/5 * * * *", Unbounded: byPut},
			"zone":        {Value: "Europe/Berlin", Unbounded: byPut},
			"misfire":     {Value: "skip", Unbounded: byPut},
			"cap":         {Value: 3},
			"grace":       {Value: int64(90_000_000)},
			"overlap":     {Value: "buffer", Unbounded: byPut},
			"jitter":      {Value: int64(5_000_000)},
			"template":    {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: byPut},
			"paused":      {Value: true},
			"next_at":     {Value: at},
			"last_at":     {Value: at},
			"buffered_at": {Value: at},
			"fired":       {Value: int64(1) << 40},
			"skipped":     {Value: int64(7)},
			"owed":        {Value: `[{"until": "2030-01-02T03:04:05Z"}]`, Unbounded: "the scheduler keeps at most maxDebts"},
			"anchor":      {Value: at},
			"version":     {Value: int64(4)},
			"resumed_at":  {Value: at},
			"triggers": {Value: `[{"at": "2030-01-02T03:04:05Z"}]`,
				Unbounded: "the function that writes it keeps at most maxTriggers"},
		},
	})
}
