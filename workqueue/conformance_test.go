package workqueue_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/conformance"
	"github.com/txwork/txwork/workqueue"
)

// invoices has lanes, a column of every type, and names that need quoting.
var invoices = workqueue.Spec{
	Table: "invoices",
	Columns: []workqueue.Column{
		{Name: "region", Type: "text", NotNull: true},
		{Name: "priority", Type: "smallint", NotNull: true},
		{Name: "number", Type: "bigint", NotNull: true},
		{Name: "amount", Type: "numeric", NotNull: true},
		{Name: "order", Type: "jsonb"},
		{Name: "due", Type: "date"},
		{Name: "customer", Type: "uuid"},
		{Name: "paid", Type: "boolean"},
		{Name: "issued", Type: "timestamptz"},
		{Name: "pages", Type: "integer"},
		{Name: "weight", Type: "double precision"},
		{Name: "scan", Type: "bytea", Bound: workqueue.Bound{Max: 100}},
		{Name: "user", Type: "text"},
	},
	Lanes:       []string{"region", "priority"},
	Unique:      []string{"number"},
	MaxAttempts: 5,
	Retry:       workqueue.Retry{Growth: workqueue.Linear, Base: 5 * time.Second, Cap: time.Hour},
}

// deleteDone keeps no rows.
var deleteDone = workqueue.Spec{
	Table: "emails",
	Columns: []workqueue.Column{{Name: "address", Type: "text", NotNull: true,
		Bound: workqueue.Bound{Min: 3, Max: 320, Stored: true}}},
	DeleteDone: true,
	Retry:      workqueue.Retry{Growth: workqueue.Constant, Base: time.Minute, Cap: time.Minute, Jitter: 1},
}

// ofTests is why the columns of these tables have no bounds.
const ofTests = "it is a column of tests"

func TestInvoicesConform(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Case{
		Spec:   invoices,
		Lanes:  [2][]any{{"eu", int16(1)}, {"eu", int16(2)}},
		Values: invoice,
		Samples: map[string]conformance.Sample{
			"region":   {Value: "eu north", Unbounded: ofTests},
			"priority": {Value: 2},
			"number":   {Value: int64(1) << 40},
			"amount":   {Value: "12.10", Unbounded: ofTests},
			"order":    {Value: json.RawMessage(`{"a": ["\\", 1.5]}`), Unbounded: ofTests},
			"due":      {Value: "2026-02-28"},
			"customer": {Value: uuid.New()},
			"paid":     {Value: true},
			"issued":   {Value: time.Date(2026, 2, 28, 23, 59, 59, 999_999_000, time.UTC)},
			"pages":    {Value: 3},
			"weight":   {Value: 0.1},
			"scan":     {Value: []byte{0, 0xff, '\\', '"', 1}, Unbounded: ofTests},
			"user":     {Value: `{"a, b", 'c'} \ NULL` + "\n€", Unbounded: ofTests},
		},
	})
}

// invoice has NULL in every nullable column of each third row.
func invoice(n int) []any {
	values := []any{"", 0, int64(n) << 32, fmt.Sprintf("%d.10", n), nil, nil, nil, nil, nil, nil, nil, nil, nil}
	if n%3 > 0 {
		copy(values[4:], []any{
			json.RawMessage(`{"lines": [1, "two", {"\\": "\""}]}`), "2026-02-28", uuid.New(), n%2 == 0,
			time.Date(2026, 2, 28, 23, 59, 59, 999_999_000, time.FixedZone("", -3*3600)), n, 0.1 + float64(n),
			[]byte("scan"), `{"a, b", 'c'} \ NULL` + "\n€",
		})
	}
	return values
}

func TestDeleteDoneConforms(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Case{
		Spec:    deleteDone,
		Values:  func(n int) []any { return []any{fmt.Sprintf("%d@example.org", n)} },
		Samples: map[string]conformance.Sample{"address": {Value: "kept@example.org"}},
	})
}
