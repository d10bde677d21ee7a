package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
)

// The columns that a row with a key has together.
var (
	keyOrdered = map[string]any{"concurrency_key": "k", "key_limit": 0, "key_policy": 1}
	keyLimited = map[string]any{"concurrency_key": "k", "key_limit": 1, "key_policy": 0, "key_rate": 1.5,
		"key_burst": 2}
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
				fmt.Sprintf("u:mail.send\x1f%d", n), nil, 12})
			if n%2 == 0 {
				joined := slices.IndexFunc(spec.Columns,
					func(c workqueue.Column) bool { return c.Name == join.Column.Name })
				values[joined] = true // so that its settle notes the join
			}
			return values
		},
		Samples: map[string]conformance.Sample{
			"kind":          {Value: "kept.kind", With: map[string]any{"unique_key": nil}},
			"queue":         {Value: "kept"},
			"priority":      {Value: int64(jobs.Low)},
			"args":          {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: "each program sets its own MaxArgs"},
			"unique_key":    {Value: "u:mail.send\x1fkept", Over: "u:other\x1fkept"},
			"freed_key":     {Value: "u:mail.send\x1ffreed", Unbounded: "a trigger moves a unique_key there"},
			"unique_states": {Value: 12},
			"schedule":      {Value: "nightly", Unbounded: "a scheduler writes the name of a schedule, which is bounded"},
			"slot":          {Value: true},
			"trail":         {Value: true},
			"progress":      {Value: 42},
			"progress_note": {Value: "half of it", Unbounded: "only the lease's owner writes it, and Go bounds it"},
			"output":        {Value: []byte{0, 0xff}, Unbounded: "only the lease's owner writes it, and Go bounds it"},
			"joined":        {Value: true},

			"concurrency_key": {Value: "k", With: keyOrdered, Over: strings.Repeat("k", keyed.MaxKey+1)},
			"key_limit":       {Value: 3, With: map[string]any{"concurrency_key": "k", "key_policy": 0}, Over: -1},
			"key_policy":      {Value: 2, With: keyOrdered, Over: 3},
			"key_rate":        {Value: 2.5, With: keyLimited, Over: 2 * keyed.MaxRate},
			"key_burst":       {Value: 7, With: keyLimited, Over: 0},
			"key_seq":         {Value: int64(77), With: keyOrdered, Over: int64(1<<62 + 1)},
		},
		Lanes: [2][]any{{"default", jobs.High}, {"reports", jobs.Low}},
	})
}
