package workqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// TestPlans looks at the plan of every statement and of every SQL function, under the settings that the library pins.
// It does so on an empty table that was never analysed, on one that has many Done rows and as many rows in the future,
// and on the same table after it was analysed. No plan may scan the table, and a claim must look at the same number of
// pages in all of them.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, spec := range []Spec{goldenOutbox, goldenInvoices} {
		t.Run(spec.Table, func(t *testing.T) {
			t.Parallel()
			p := newPlanner(t, spec)
			p.prepareEarly(t)
			t.Run("empty, never analysed", p.check)

			p.insertDue(t)
			small := p.claimBuffers(t)
			p.load(t, manyRows(spec))
			t.Run("many rows, never analysed", p.check)
			t.Run("many rows, planned while empty", func(t *testing.T) { p.wantBuffers(t, p.earlyBuffers(t), small) })
			t.Run("many rows, claim never analysed", func(t *testing.T) { p.wantBuffers(t, p.claimBuffers(t), small) })

			p.exec(t, "ANALYZE $T")
			t.Run("many rows, analysed", p.check)
			t.Run("many rows, claim analysed", func(t *testing.T) { p.wantBuffers(t, p.claimBuffers(t), small) })
		})
	}
}

// manyRows is how many Done rows a table gets, and how many rows that are due in the far future. At full size one of
// the tables gets a million.
func manyRows(spec Spec) int {
	if len(spec.Lanes) > 0 {
		return pgtest.Size(5_000, 20_000)
	}
	return pgtest.Size(5_000, 1_000_000)
}

const claimLimit = 100

// A planner asks PostgreSQL for plans on one table.
type planner struct {
	db        *pgtest.DB
	spec      Spec
	rows      int       // made so far
	prepared  int       // statements so far
	early     *pgx.Conn // its claim was planned while the table was empty
	earlyName string
}

func newPlanner(t *testing.T, spec Spec) *planner {
	p := &planner{db: pgtest.New(t), spec: spec}
	p.spec.Schema = p.db.Schema
	up, _, err := p.spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	p.exec(t, up)
	p.exec(t, "ALTER TABLE $T SET (autovacuum_enabled = false)") // the test decides when there are statistics
	return p
}

func (p *planner) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := p.db.Pool.Exec(t.Context(), strings.ReplaceAll(query, "$T", p.spec.Name())); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
}

// insert makes n rows with the given core columns.
func (p *planner) insert(t *testing.T, n int, columns, values string) {
	t.Helper()
	for _, c := range p.spec.Columns {
		columns += ", " + quote(c.Name)
		values += ", " + p.sample(c)
	}
	p.exec(t, fmt.Sprintf("INSERT INTO $T (id, %s) SELECT lpad(to_hex(g.n), 32, '0')::uuid, %s FROM "+
		"generate_series(%d, %d) AS g (n)",
		columns, values, p.rows+1, p.rows+n))
	p.rows += n
}

// sample is an expression for a column's value in row g.n.
func (p *planner) sample(c Column) string {
	if slices.Contains(p.spec.Unique, c.Name) && !c.NotNull {
		return "g.n::text"
	}
	return map[string]string{"text": "'eu'", "bytea": `'\x00'`, "smallint": "1", "numeric": "g.n", "jsonb": "NULL",
		"date": "NULL"}[c.Type]
}

// insertDue makes the rows of the next claim. They are due before all others, and no claim that was rolled back has
// touched them: its dead row versions would fill their pages.
func (p *planner) insertDue(t *testing.T) {
	t.Helper()
	p.insert(t, claimLimit, "due_at", fmt.Sprintf("now() - interval '1 day' - interval '%d seconds'", p.rows))
}

// load fills the table with n Done rows and n far-future ones.
func (p *planner) load(t *testing.T, n int) {
	t.Helper()
	start := time.Now()
	p.insert(t, n, "due_at, status, attempts, owner_token, completed_at",
		"now() - interval '1 hour', 2, 1, '00000000-0000-0000-0000-000000000001', now() - interval '1 minute'")
	p.insert(t, n, "due_at", "now() + interval '1 year' + g.n * interval '1 second'")
	t.Logf("%d rows in %v", 2*n, time.Since(start).Round(time.Millisecond))
}

// check looks at every statement and function, with a plan for its arguments and with a generic plan.
func (p *planner) check(t *testing.T) {
	queries := append(p.statements(), p.functions()...)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		t.Run(mode, func(t *testing.T) {
			for _, q := range queries {
				t.Run(q.name, func(t *testing.T) { q.judge(t, p.explain(t, q, mode)) })
			}
		})
	}
}

// A query is a statement with arguments for it.
type query struct {
	name, text string
	types      string // of its parameters; if it is empty, PostgreSQL infers them
	args       []string
	unpinned   bool
	claims     bool
}

// statements returns what the Go API sends.
func (p *planner) statements() (list []query) {
	s := renderStatements(p.spec)
	for _, stmt := range allStatements(p.spec) {
		q := query{name: stmt.Name, text: stmt.Text, unpinned: strings.HasPrefix(stmt.Name, "insert"),
			claims: stmt.Name == s.claim.Name}
		for _, name := range stmt.Params {
			q.args = append(q.args, p.argument(name, columnsOf(stmt)))
		}
		list = append(list, q)
	}
	return list
}

// functions returns the bodies of the table's SQL functions, which pin the same settings. Those of settles have several
// statements, which are those of the Go API.
func (p *planner) functions() (list []query) {
	v := newView(p.spec)
	for _, f := range slices.Concat(v.Functions(), v.Verbs()) {
		if f.settles != nil {
			continue
		}
		q := query{name: f.Name + " function", text: v.functionBody(f), types: "(" + f.Types() + ")",
			claims: f.file == "claim"}
		for _, param := range f.params {
			q.args = append(q.args, p.argument(strings.Trim(param.name, `"`), "%s"))
		}
		list = append(list, q)
	}
	return list
}

const someIDs = "ARRAY(SELECT lpad(to_hex(n), 32, '0')::uuid FROM generate_series(1, 100) AS n)"

// columnsOf says how a statement gets the values of columns: as lanes, one by one, or as the columns of an insert.
func columnsOf(s conn.Statement) string {
	switch s.Name {
	case "claim", "look", "next_due":
		return "ARRAY[%s]"
	case "insert", "find_unique":
		return "'{}'"
	}
	return "%s"
}

// argument returns an example for a parameter, as SQL.
func (p *planner) argument(name, columnFormat string) string {
	if c, ok := p.spec.column(strings.TrimPrefix(name, "column_")); ok {
		return strings.ReplaceAll(columnFormat, "%s", strings.ReplaceAll(p.sample(c), "g.n", "1"))
	}
	if c, ok := p.spec.column(strings.TrimPrefix(name, "lane_")); ok {
		return "'{\"" + strings.ReplaceAll(strings.Trim(p.sample(c), "'"), `\`, `\\`) + "\"}'"
	}
	example, ok := map[string]string{
		"ids": someIDs, "tokens": someIDs, "delays": "'{}'", "within": "'{}'",
		"claimed": "'30 s'", "errors": "'{}'", "cancelled": "'{}'",
		"due_at": "'{}'", "max_attempts": "'{}'", "headers": "'{}'", "waiting": "'{}'", "retry": "'{}'",
		"id": "gen_random_uuid()", "owner_token": "'00000000-0000-0000-0000-000000000002'", "lease": "'30 seconds'",
		"at":         "now()",
		"batch_size": fmt.Sprint(claimLimit), "max_rows": "1000", "error": "'e'",
		"reason": "'r'", "actor": "'a'",
		"worker": "'{0}'", "asked_before": "'{-infinity}'", "after_due": "'{-infinity}'", "after_id": "'{" +
			uuid.Nil.String() + "}'", "since": "now()", "age": "'7 days'",
	}[name]
	if !ok {
		panic("no example for the parameter " + name)
	}
	return example
}

// A plan is a node of what EXPLAIN (FORMAT JSON) writes.
type plan struct {
	Node     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Plans    []plan `json:"Plans"`

	Rows         float64 `json:"Actual Rows"`
	Loops        float64 `json:"Actual Loops"`
	Filtered     float64 `json:"Rows Removed by Filter"`
	JoinFiltered float64 `json:"Rows Removed by Join Filter"`
}

func (n plan) walk(visit func(plan)) {
	visit(n)
	for _, child := range n.Plans {
		child.walk(visit)
	}
}

func (q query) judge(t *testing.T, root plan) {
	t.Helper()
	nodes := map[string]int{}
	root.walk(func(n plan) {
		nodes[n.Node]++
		if n.Node == "Seq Scan" || n.Node == "Bitmap Heap Scan" {
			t.Errorf("%s on %s", n.Node, n.Relation)
		}
	})
	if q.claims && (nodes["Tid Scan"] != 1 || nodes["Index Scan"] != 1 || nodes["Limit"] != 2) {
		t.Errorf("a claim is to be an index scan and a fetch by TID, but has the nodes %v", nodes)
	}
	if q.claims && q.types == "" && nodes["Sort"] > 0 {
		t.Errorf("a claim is to read the index in order, but sorts: %v", nodes)
	}
}

// explain plans a query as the library runs it: its settings are pinned in the same transaction.
func (p *planner) explain(t *testing.T, q query, mode string) plan {
	t.Helper()
	return p.inTransaction(t, func(tx pgx.Tx) plan {
		if !q.unpinned {
			execTx(t, tx, pinText)
		}
		execTx(t, tx, "SET LOCAL plan_cache_mode = "+mode)
		name := p.prepare(t, tx, q)
		return explainTx(t, tx, "EXPLAIN (FORMAT JSON) EXECUTE "+name+q.arguments(t, tx))
	})
}

// prepare makes a prepared statement with a name of its own, because a connection outlives the transaction.
func (p *planner) prepare(t *testing.T, tx pgx.Tx, q query) (name string) {
	t.Helper()
	p.prepared++
	name = fmt.Sprintf("q%d", p.prepared)
	types := strings.TrimSuffix(q.types, "()") // PREPARE takes no empty list
	execTx(t, tx, "PREPARE "+name+" "+types+" AS "+q.text)
	return name
}

// arguments returns the query's arguments for EXECUTE, which takes no subqueries.
func (q query) arguments(t *testing.T, tx pgx.Tx) string {
	t.Helper()
	if len(q.args) == 0 {
		return ""
	}
	var ids string
	if err := tx.QueryRow(t.Context(), "SELECT quote_literal("+someIDs+")").Scan(&ids); err != nil {
		t.Fatal(err)
	}
	return "(" + strings.ReplaceAll(strings.Join(q.args, ", "), someIDs, ids) + ")"
}

// inTransaction runs fn in a transaction that is rolled back.
func (p *planner) inTransaction(t *testing.T, fn func(pgx.Tx) plan) plan {
	t.Helper()
	tx, err := p.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	return fn(tx)
}

func execTx(t *testing.T, tx pgx.Tx, query string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), query, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
}

func explainTx(t *testing.T, tx pgx.Tx, query string) plan {
	t.Helper()
	var text string
	if err := tx.QueryRow(t.Context(), query, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	var explained []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		t.Fatal(err)
	}
	return explained[0].Plan
}

// claimQuery returns the Go API's claim.
func (p *planner) claimQuery() query {
	list := p.statements()
	return list[slices.IndexFunc(list, func(q query) bool { return q.claims })]
}

const explainBuffers = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "

// claimBuffers returns how many pages a claim looks at. The claim is rolled back.
func (p *planner) claimBuffers(t *testing.T) int {
	t.Helper()
	p.insertDue(t)
	q := p.claimQuery()
	root := p.inTransaction(t, func(tx pgx.Tx) plan {
		execTx(t, tx, pinText)
		name := p.prepare(t, tx, q)
		return explainTx(t, tx, explainBuffers+name+q.arguments(t, tx))
	})
	return root.Hit + root.Read
}

// prepareEarly makes a connection that keeps the generic plan which the claim gets while the table is empty.
func (p *planner) prepareEarly(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	p.early = conn
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	p.withEarly(t, func(tx pgx.Tx) plan {
		p.earlyName = p.prepare(t, tx, p.claimQuery())
		return explainTx(t, tx, explainBuffers+p.earlyName+p.claimQuery().arguments(t, tx))
	})
}

// earlyBuffers is claimBuffers with that plan.
func (p *planner) earlyBuffers(t *testing.T) int {
	t.Helper()
	p.insertDue(t)
	root := p.withEarly(t, func(tx pgx.Tx) plan {
		return explainTx(t, tx, explainBuffers+p.earlyName+p.claimQuery().arguments(t, tx))
	})
	return root.Hit + root.Read
}

func (p *planner) withEarly(t *testing.T, fn func(pgx.Tx) plan) plan {
	t.Helper()
	tx, err := p.early.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	execTx(t, tx, pinText)
	return fn(tx)
}

// wantBuffers compares a claim among many rows with the same claim in a small table. The index is two levels higher;
// otherwise a claim looks only at its own rows.
func (p *planner) wantBuffers(t *testing.T, got, small int) {
	t.Helper()
	t.Logf("a claim of %d rows looks at %d pages, in a small table at %d", claimLimit, got, small)
	if limit := small + small/4; got > limit {
		t.Errorf("a claim of %d rows looks at %d pages, want at most %d: a small table's %d and a quarter", claimLimit,
			got, limit, small)
	}
}

// A few cancelled rows among many dead letters are found through an index that has no dead letters.
func TestThePurgeOfCancelledRowsPassesDeadLetters(t *testing.T) {
	t.Parallel()
	for _, spec := range []Spec{goldenOutbox, goldenInvoices} {
		t.Run(spec.Table, func(t *testing.T) {
			t.Parallel()
			p := newPlanner(t, spec)
			const ended = "due_at, status, completed_at, failed_at, cancelled_at"
			p.insert(t, manyRows(spec)/10, ended, "now() - interval '90 days', 3, now() - interval '60 days', now() "+
				"- interval '60 days', NULL")
			p.insert(t, 5, ended, "now() - interval '90 days', 3, now() - interval '30 days', now() - interval '30 "+
				"days', now() - interval '31 days'")
			for _, statistics := range []string{"", "ANALYZE $T"} {
				p.exec(t, statistics)
				q := p.named("purge_done")
				root := p.inTransaction(t, func(tx pgx.Tx) plan {
					execTx(t, tx, pinText)
					return explainTx(t, tx, explainBuffers+p.prepare(t, tx, q)+q.arguments(t, tx))
				})
				if n := root.Hit + root.Read; root.Rows != 5 || n > 100 {
					t.Errorf("%q: %v rows are purged, of 5, and %d pages read", statistics, root.Rows, n)
				}
			}
		})
	}
}

// named is one of the statements.
func (p *planner) named(name string) query {
	list := p.statements()
	return list[slices.IndexFunc(list, func(q query) bool { return q.name == name })]
}
