package jobs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func TestJobsConform(t *testing.T) {
	t.Parallel()
	spec := jobs.Spec("")
	conformance.Run(t, conformance.Case{
		Spec: spec,
		DDL:  jobs.DDL,
		Values: func(n int) []any {
			values := make([]any, len(spec.Columns))
			copy(values, []any{"mail.send", "default", jobs.Normal, []byte{0, byte(n), '"', '\\', 0xff},
				fmt.Sprintf("u:%d", n), nil, 12})
			if n%2 == 0 {
				joined := slices.IndexFunc(spec.Columns,
					func(c workqueue.Column) bool { return c.Name == join.Column.Name })
				values[joined] = true // so that its settle notes the join
			}
			return values
		},
		Lanes: [2][]any{{"default", jobs.High}, {"reports", jobs.Low}},
	})
}
