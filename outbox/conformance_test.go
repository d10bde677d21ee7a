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
		Values: func(n int) []any {
			return []any{"orders.created", fmt.Sprintf("customer %d", n%10), []byte{0, byte(n), '"', '\\', 0xff}, fmt.Sprint(n)}
		},
	})
}
