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
		Samples: map[string]conformance.Sample{
			"consumer":   {Value: "kept"},
			"source":     {Value: "kept"},
			"message_id": {Value: "kept"},
			"body_hash":  {Value: hash("kept")},
			"topic": {Value: "kept.topic", Unbounded: "Go and inbox_receive bound it, since every statement that writes " +
				"would parse a CHECK, see ADR 0021"},
			"payload": {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: "each program sets its own MaxPayload"},
		},
		Lanes: [2][]any{{"billing"}, {"shipping"}},
	})
}
