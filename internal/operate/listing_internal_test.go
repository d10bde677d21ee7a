package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// invoices is an application's own table, with lanes. Its columns are not known to those who look.
func invoices(schema string) workqueue.Spec { return workqueue.Spec{Schema: schema, Table: "invoices"} }

func invoicesDDL(schema string) (up, down string, err error) {
	spec := invoices(schema)
	spec.Columns = []workqueue.Column{
		{Name: "region", Type: "text", NotNull: true},
		{Name: "priority", Type: "smallint", NotNull: true},
		{Name: "topic", Type: "text"},
	}
	spec.Lanes = []string{"region", "priority"}
	return spec.DDL()
}

// A page costs the same however large the table is, because every listing reads an index in its order.
func TestListUsesTheIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outbox.Spec, outbox.DDL)
	f.exec(`INSERT INTO {table} (status, topic, payload, due_at, completed_at, failed_at)
		SELECT s, 't', '', now() - i * interval '1 s', CASE WHEN s >= 2 THEN now() - i * interval '1 s' END,
			CASE WHEN s = 3 THEN now() - i * interval '1 s' END
		FROM generate_series(1, 30000) AS i, (VALUES (0), (2), (3)) AS v (s)`)
	for _, analysed := range []bool{false, true} {
		if analysed {
			f.exec("ANALYZE {table}")
		}
		for status := range Listings {
			for _, after := range []bool{false, true} {
				plan := f.explainList(status, after)
				if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index Scan") ||
					strings.Contains(plan, "->  Sort") {
					t.Errorf("analysed %v, %s, after %v:\n%s", analysed, status, after, plan)
				}
			}
		}
	}
	if plan := newFixture(t, invoices, invoicesDDL).explainList("ready", true); !strings.Contains(plan,
		"invoices_claim_idx") || strings.Contains(plan, "Sort") {
		t.Errorf("a table with lanes:\n%s", plan)
	}
}

func (f *fixture) explainList(status string, after bool) (plan string) {
	f.Helper()
	f.ok(f.Read(f.Context(), func(tx pgx.Tx) error {
		l, err := ReadLayout(f.Context(), tx, f.table.Spec())
		if err != nil {
			return err
		}
		q := Listings[status].query(l)
		args := []any{51}
		values := map[string]string{"timestamptz": time.Now().Add(-time.Hour).Format(time.RFC3339),
			"uuid": uuid.Nil.String(), "text": "eu", "smallint": "1"}
		for _, k := range q.keys {
			if after {
				args = append(args, values[k.Type])
			}
		}
		rows, err := tx.Query(f.Context(), "EXPLAIN "+q.text(after), args...)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan = strings.Join(lines, "\n")
		return err
	}))
	return plan
}
