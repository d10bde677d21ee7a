package periodic_test

import (
	"fmt"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/workqueue/periodic"
)

func TestTablesOfSchedulesConform(t *testing.T) {
	t.Parallel()
	spec := periodic.Spec("", "runs_schedule")
	spec.MaxAttempts = 10 // the suite uses them up
	conformance.Run(t, conformance.Case{
		Spec: spec,
		Values: func(n int) []any {
			return []any{fmt.Sprint(n), "@daily", "UTC", "once", 0, 0, "allow", 0, []byte{}, false, nil, nil, nil, 0, 0,
				nil, nil, 0}
		},
	})
}
