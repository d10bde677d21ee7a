package keyed_test

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/workqueue/keyed"
)

func TestTablesWithKeysConform(t *testing.T) {
	t.Parallel()
	ordered := map[string]any{"concurrency_key": "k", "key_limit": 0, "key_policy": 1}
	limited := map[string]any{"concurrency_key": "k", "key_limit": 1, "key_policy": 0, "key_rate": 1.5, "key_burst": 2}
	table := spec("")
	table.MaxAttempts = 10 // the suite uses them up
	conformance.Run(t, conformance.Case{
		Spec: table,
		DDL: func(schema string) (up, down string, err error) {
			own := table
			own.Schema = schema
			core, coreDown, err := own.DDL()
			if err != nil {
				return "", "", err
			}
			up, down, err = keyed.DDL(own)
			return core + up, down + coreDown, err
		},
		Values: func(n int) []any { return append([]any{n}, make([]any, len(table.Columns)-1)...) },
		Samples: map[string]conformance.Sample{
			"n":               {Value: 1 << 40},
			"concurrency_key": {Value: "k", With: ordered, Over: strings.Repeat("k", keyed.MaxKey+1)},
			"key_limit":       {Value: 3, With: map[string]any{"concurrency_key": "k", "key_policy": 0}, Over: -1},
			"key_policy":      {Value: 2, With: ordered, Over: 3},
			"key_rate":        {Value: 2.5, With: limited, Over: 2 * keyed.MaxRate},
			"key_burst":       {Value: 7, With: limited, Over: 0},
			"key_seq":         {Value: int64(77), With: ordered, Over: int64(1<<62 + 1)},
		},
	})
}
