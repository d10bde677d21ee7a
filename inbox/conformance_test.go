package inbox_test

import (
	"fmt"
	"testing"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/conformance"
)

func TestInboxConforms(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Case{
		Spec: inbox.Spec(""),
		DDL:  inbox.DDL,
		Values: func(n int) []any {
			return []any{"billing", "shop", fmt.Sprint(n), hash(fmt.Sprint(n)), "order.placed",
				[]byte{0, byte(n), '"', '\\', 0xff}}
		},
		Lanes: [2][]any{{"billing"}, {"shipping"}},
	})
}
