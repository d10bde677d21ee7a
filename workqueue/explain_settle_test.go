package workqueue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// If a table was analysed while all its rows were Ready, the planner believes that no row is in progress. It would then
// rather read all rows in progress, and compare each with each row of the batch, than look the batch up. The number of
// comparisons without a match grows with the product, so the test counts these. Where the pages of a table seem dear,
// the planner takes ways to join rows that it has read for equally cheap.
func TestSettlesCompareNoRowsInVain(t *testing.T) {
	t.Parallel()
	const batch = 1000
	for _, rows := range []int{batch, 5 * batch, 20 * batch} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			t.Parallel()
			p := newPlanner(t, goldenOutbox)
			p.insert(t, rows, "due_at", "now() - interval '1 minute'")
			p.exec(t, "VACUUM ANALYZE $T")
			p.exec(t,
				fmt.Sprintf(`UPDATE $T SET status = 1, attempts = 1, locked_until = now() + interval '1 minute', owner_token = '%s'
				WHERE id = ANY (%s)`, batchToken, batchIDs(batch)))
			for _, settings := range []string{"plan_cache_mode = force_custom_plan",
				"plan_cache_mode = force_generic_plan", "random_page_cost = 40"} {
				for _, q := range p.settles(batch) {
					t.Run(settings+"/"+q.name, func(t *testing.T) { p.wantNothingInVain(t, q, settings, batch) })
				}
			}
		})
	}
}

const batchToken = "00000000-0000-0000-0000-00000000000a"

func batchIDs(n int) string {
	return fmt.Sprintf("ARRAY(SELECT lpad(to_hex(n), 32, '0')::uuid FROM generate_series(1, %d) AS n)", n)
}

// settles returns the settling statements with a whole batch as arguments.
func (p *planner) settles(n int) (list []query) {
	repeated := func(value, typ string) string { return fmt.Sprintf("array_fill(%s::%s, ARRAY[%d])", value, typ, n) }
	arguments := map[string]string{
		"tokens": repeated("'"+batchToken+"'", "uuid"), "owner_token": "'" + batchToken + "'",
		"delays": repeated("0", "bigint"),
		"within": repeated("0", "bigint"), "claimed": "'30 s'", "errors": repeated("'e'",
			"text"),
		"cancelled": repeated("false", "boolean"), "lease": "'30 seconds'", "ids": someIDs,
	}
	s := renderStatements(p.spec)
	for _, stmt := range []conn.Statement{s.settles[outcomeAck], s.ackOne, s.settles[outcomeRetry],
		s.settles[outcomeSnooze], s.settles[outcomeFail], s.extend} {
		q := query{name: stmt.Name, text: stmt.Text}
		for _, param := range stmt.Params {
			q.args = append(q.args, arguments[param])
		}
		list = append(list, q)
	}
	return list
}

func (p *planner) wantNothingInVain(t *testing.T, q query, settings string, batch int) {
	t.Helper()
	root := p.inTransaction(t, func(tx pgx.Tx) plan {
		execTx(t, tx, pinText)
		execTx(t, tx, "SET LOCAL "+settings)
		var ids string
		if err := tx.QueryRow(t.Context(), "SELECT quote_literal("+batchIDs(batch)+")").Scan(&ids); err != nil {
			t.Fatal(err)
		}
		name := p.prepare(t, tx, q)
		args := strings.ReplaceAll(strings.Join(q.args, ", "), someIDs, ids)
		return explainTx(t, tx, explainBuffers+name+"("+args+")")
	})
	vain, changed := 0.0, 0.0
	root.walk(func(n plan) {
		vain += (n.JoinFiltered + n.Filtered) * n.Loops
		if n.Node == "ModifyTable" {
			changed = n.Rows
		}
	})
	if changed != float64(batch) {
		t.Errorf("%v rows were changed, want %d", changed, batch)
	}
	if vain > float64(batch) {
		t.Errorf("%v rows were compared in vain", vain)
	}
}
