package outbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
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
				joined := slices.IndexFunc(outbox.Spec("").Columns,
					func(c workqueue.Column) bool { return c.Name == join.Column.Name })
				v[joined] = true // its settle looks for a join
			}
			return v
		},
		Samples: map[string]conformance.Sample{
			"topic":     {Value: "kept.topic", Unbounded: "Go and outbox_enqueue bound it, " + noCheck},
			"key":       {Value: "kept", Unbounded: "Go and outbox_enqueue bound it, " + noCheck},
			"payload":   {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: "each program sets its own MaxPayload"},
			"dedup_key": {Value: "kept once", Unbounded: "Go and outbox_enqueue bound it, " + noCheck},
			"joined":    {Value: true},

			"concurrency_key": {Value: "k", With: ordered(1), Over: strings.Repeat("k", keyed.MaxKey+1)},
			"key_limit":       {Value: 3, With: map[string]any{"concurrency_key": "k", "key_policy": 0}, Over: -1},
			"key_policy":      {Value: 2, With: ordered(1), Over: 3},
			"key_rate":        {Value: 2.5, With: limited, Over: 2 * keyed.MaxRate},
			"key_burst":       {Value: 7, With: limited, Over: 0},
			"key_seq":         {Value: int64(77), With: ordered(1), Over: int64(1<<62 + 1)},
		},
	})
}

// noCheck is why columns of a message have no CHECK.
const noCheck = "since every statement that writes would parse a CHECK, see ADR 0021"

// ordered are the columns of an ordered row, and limited those of one with a rate.
func ordered(policy int) map[string]any {
	return map[string]any{"concurrency_key": "k", "key_limit": 0, "key_policy": policy}
}

var limited = map[string]any{"concurrency_key": "k", "key_limit": 1, "key_policy": 0, "key_rate": 1.5, "key_burst": 2}

// values returns the columns of a message that has no ordering and belongs to no join.
func values(own ...any) []any {
	return append(own, make([]any, len(outbox.Spec("").Columns)-len(own))...)
}
