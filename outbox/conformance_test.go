package outbox_test

import (
	"fmt"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/outbox"
)

func TestOutboxConforms(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Case{
		Spec: outbox.Spec(""),
		DDL:  outbox.DDL,
		Values: func(n int) []any {
			v := values("orders.created", fmt.Sprintf("customer %d", n%10), []byte{0, byte(n), '"', '\\', 0xff},
				fmt.Sprint(n))
			if n%2 == 0 {
				v[4] = true // its settle looks for a join
			}
			return v
		},
	})
}

// values returns the columns of a message that has no ordering and belongs to no join.
func values(own ...any) []any {
	return append(own, make([]any, len(outbox.Spec("").Columns)-len(own))...)
}
