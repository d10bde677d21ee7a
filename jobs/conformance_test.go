package jobs_test

import (
	"fmt"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/jobs"
)

func TestJobsConform(t *testing.T) {
	t.Parallel()
	spec := jobs.Spec("")
	conformance.Run(t, conformance.Case{
		Spec:    spec,
		DDL:     jobs.DDL,
		Derived: []string{"trail"}, // attempts are put on record
		Values: func(n int) []any {
			values := make([]any, len(spec.Columns))
			copy(values, []any{"mail.send", "default", jobs.Normal, []byte{0, byte(n), '"', '\\', 0xff}, fmt.Sprintf("u:%d", n), 12})
			return values
		},
		Lanes: [2][]any{{"default", jobs.High}, {"reports", jobs.Low}},
	})
}
