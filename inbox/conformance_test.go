package inbox_test

import (
	"fmt"
	"strings"
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
			"consumer":   {Value: "kept", Over: strings.Repeat("c", inbox.MaxKeyPart+1)},
			"source":     {Value: "kept", Over: strings.Repeat("s", inbox.MaxKeyPart+1)},
			"message_id": {Value: "kept", Over: strings.Repeat("m", inbox.MaxKeyPart+1)},
			"body_hash":  {Value: hash("kept"), Over: hash("kept")[1:]},
			"topic": {Value: "kept.topic", Unbounded: "Go and inbox_receive bound it, since every statement that writes " +
				"would parse a CHECK, see ADR 0021"},
			"payload": {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: "each program sets its own MaxPayload"},
		},
		Lanes: [2][]any{{"billing"}, {"shipping"}},
	})
}
