package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// schemaChecks compare the schema with what the migrations create.
var schemaChecks = []check{
	{
		code: "schema", severity: Critical, fixes: true,
		title: "the schema differs from what the migrations create: a version, table, column, index, function or " +
			"trigger",
		meaning: "Workers of this version refuse the schema, fail, or read whole tables because an index is missing. " +
			"A pending migration that they can do without is a warning.",
		remedy: "`txwork migrate up`, or the DDL that `txwork migrate validate` prints. `--fix` creates indexes only",
		look:   schemaDifferences,
	},
	{
		code: "invalid-index", severity: Critical, fixes: true,
		title:   "an invalid index, left behind by a failed CREATE or REINDEX CONCURRENTLY",
		meaning: "No query uses the index, yet every write maintains it. A unique index may contain duplicates.",
		remedy:  "`REINDEX INDEX CONCURRENTLY`, or `DROP INDEX` for the leftover of a failed REINDEX",
		look:    invalidIndexes,
	},
	{
		code: "claim-scan", severity: Critical, fixes: true,
		title:   "claims that do not use the claim index",
		meaning: "Every claim reads the whole table, or sorts it: the queue becomes slower with every row.",
		remedy:  "create the index",
		look:    inEachTable(claimPlan),
	},
	{
		code: "sequence-behind", severity: Critical, fixes: true,
		title: "a sequence that is behind its column",
		meaning: "Inserts fail with a duplicate key until the sequence has passed the existing rows. Logical " +
			"replication, for example, does not copy sequences.",
		remedy: "`setval` to the highest value",
		look:   sequencesBehind,
	},
	{
		code: "public-rights", severity: Warning,
		title:   "privileges of PUBLIC on tables or functions of the queues",
		meaning: "Every role of the database can read payloads, or claim and settle other applications' rows.",
		remedy:  "`REVOKE … FROM PUBLIC`, as `txwork roles` does",
		look:    publicRights,
	},
	{
		code: "side-policies", severity: Warning,
		title: "row-level security of a table that its side tables lack, or the reverse",
		meaning: "Side tables have keys, labels and errors of rows: whoever may read them reads those of all tenants. " +
			"Or they are hidden though the rows are not, and workers cannot release ordered and limited rows.",
		remedy: "the functions `…_key_policies`, `…_join_policies`, `…_topic_policies` and `jobs_policies`",
		look:   sidePolicies,
	},
}

// migrated tells whether the migrations are meant for the schema. A schema with only an application's own tables is
// not.
func (x *examination) migrated(ctx context.Context) (yes bool, err error) {
	if len(x.tables) == 0 || slices.ContainsFunc(x.tables, func(t *table) bool {
		return t.Name == "outbox" ||
			t.Name == "jobs"
	}) {
		return true, nil
	}
	err = x.read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.Identifier{x.Schema,
			"schema_version"}.Sanitize()).Scan(&yes)
	})
	return yes, err
}

func schemaDifferences(ctx context.Context, x *examination) (all []Finding, err error) {
	if yes, err := x.migrated(ctx); err != nil || !yes {
		return nil, err
	}
	m, err := migrations.New(x.pool, migrations.Options{Schema: x.Schema, LockTimeout: survey.LockLimit,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	differences, err := m.Differences(ctx)
	if err != nil {
		return nil, err
	}
	if err := x.findAbsent(ctx, m); err != nil {
		return nil, err
	}
	for _, d := range differences.Causes() {
		switch {
		case d.Harmless, strings.HasPrefix(d.Object, "index ") && d.Problem == "is invalid": // that has its own check
		case d.Pending():
			all = append(all, x.pendingMigrations(ctx, m, d))
		default:
			all = append(all, x.difference(d))
		}
	}
	return all, nil
}

// findAbsent finds out which domains a schema with some of them lacks.
func (x *examination) findAbsent(ctx context.Context, m *migrations.Migrator) error {
	has, absent, err := m.Domains(ctx)
	if len(has) > 0 {
		x.report.Absent = append(x.report.Absent, absent...)
	}
	return err
}

// difference reports a difference of the schema as a finding.
func (x *examination) difference(d migrations.Difference) Finding {
	f := Finding{
		Title:    d.String(),
		Evidence: []Evidence{evidence("object", d.Object, "problem", d.Problem)},
		Remedy: Remedy{Do: "Run these statements in this order, not in one transaction.",
			Commands: []string{x.command("migrate", "validate")}, SQL: d.DDL},
		Fixable: len(d.DDL) > 0 && strings.HasPrefix(d.Object, "index ") && onlyIndexes(d.DDL),
	}
	switch {
	case d.Unrecorded():
		f.Meaning = "Nothing can be migrated: a migration fails on what it finds."
	case len(d.DDL) == 0:
		f.Remedy = Remedy{Do: "No statement repairs this: upgrade the library, or restore what is missing from a " +
			"backup."}
	}
	return f
}

// pendingMigrations reports migrations that are to be applied: a warning if the programs of this version work with the
// tables as they are.
func (x *examination) pendingMigrations(ctx context.Context, m *migrations.Migrator, d migrations.Difference) Finding {
	f := Finding{
		Title:    d.String(),
		Evidence: []Evidence{evidence("object", d.Object, "problem", d.Problem)},
		Remedy:   Remedy{Do: "Apply the migration.", Commands: []string{x.command("migrate", "up")}},
	}
	if len(x.tables) == 0 {
		f.Remedy.Do = "Apply the migration, or name another --schema: this one has no txwork tables."
		return f
	}
	needed, err := x.needed(ctx, m)
	switch {
	case err != nil:
		x.skip(ctx, x.current.code, "", err)
	case len(needed) > 0:
		f.Evidence[0] = append(f.Evidence[0], Field{"needed_by", needed})
	default:
		f.Severity = Warning
		f.Meaning = "Nothing fails: the programs of this version work with the tables as they are. Those of the next may not."
	}
	return f
}

// needed returns the tables with which the programs of this version do not work while migrations are pending, by the
// check that workers make when they start. A domain of which no tables are given stands for itself.
func (x *examination) needed(ctx context.Context, m *migrations.Migrator) (by []string, err error) {
	all, err := m.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Applied || slices.Contains(x.pending, s.Domain) {
			continue
		}
		x.pending = append(x.pending, s.Domain)
		if len(x.Programs[s.Domain]) == 0 {
			by = append(by, string(s.Domain))
		}
		for _, spec := range x.Programs[s.Domain] {
			switch err := x.serves(ctx, spec); {
			case errors.Is(err, workqueue.ErrSchemaVersion):
				by = append(by, spec.Table)
			case err != nil:
				return nil, err
			}
		}
	}
	return by, nil
}

// serves returns a [workqueue.ErrSchemaVersion] if a table does not serve programs that open it with the Spec.
func (x *examination) serves(ctx context.Context, spec workqueue.Spec) error {
	t, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return x.read(ctx, func(tx pgx.Tx) error { return t.CheckVersion(ctx, tx) })
}

// compared tells whether the schema check finds what is missing of a table: not while its migrations are pending.
func (x *examination) compared(t *table) bool {
	return !t.own() && !slices.ContainsFunc(x.pending, func(d migrations.Domain) bool {
		return t.Name == string(d) || strings.HasPrefix(t.Name, string(d)+"_")
	})
}

// onlyIndexes tells whether DDL only creates indexes without blocking writers.
func onlyIndexes(ddl []string) bool {
	return !slices.ContainsFunc(ddl, func(s string) bool {
		return !strings.HasPrefix(s, "CREATE INDEX CONCURRENTLY ") &&
			!strings.HasPrefix(s, "CREATE UNIQUE INDEX CONCURRENTLY ") &&
			!strings.HasPrefix(s, "REINDEX INDEX CONCURRENTLY ")
	})
}

func invalidIndexes(ctx context.Context, x *examination) (all []Finding, err error) {
	type invalid struct{ Index, Name, Table string }
	list, err := listed[invalid](ctx, x, "invalid", "invalid indexes", x.Schema)
	for _, i := range list {
		f := Finding{
			Table:    i.Table,
			Title:    fmt.Sprintf("index %s.%s is invalid", x.Schema, postgres.Name(i.Name)),
			Evidence: []Evidence{evidence("index", i.Name, "table", i.Table)},
			Remedy: Remedy{Do: "Rebuild it; this does not block reads or writes.",
				SQL: []string{fmt.Sprintf("REINDEX INDEX CONCURRENTLY %s;", i.Index)}},
			Fixable: true,
		}
		if strings.Contains(i.Name, "_ccnew") || strings.Contains(i.Name, "_ccold") {
			f.Remedy = Remedy{Do: "It was left behind by a failed REINDEX CONCURRENTLY: drop it.",
				SQL: []string{fmt.Sprintf("DROP INDEX CONCURRENTLY %s;", i.Index)}}
			f.Fixable = false
		}
		all = append(all, f)
	}
	return all, err
}

// A plan is the part of EXPLAIN's output that matters here.
type plan struct {
	Node     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Plans    []plan `json:"Plans"`
}

// problem says what is wrong with a claim's plan, or returns an empty string.
func (p plan) problem(table string) string {
	if p.Relation == table && p.Index != table+"_claim_idx" {
		if p.Index != "" {
			return fmt.Sprintf("%s by %s", p.Node, p.Index)
		}
		return p.Node
	}
	if strings.Contains(p.Node, "Sort") {
		return p.Node
	}
	for _, sub := range p.Plans {
		if problem := sub.problem(table); problem != "" {
			return problem
		}
	}
	return ""
}

func claimPlan(ctx context.Context, x *examination, t *table) ([]Finding, error) {
	if yes, err := x.migrated(ctx); err != nil || yes && !t.Indexed && x.compared(t) {
		return nil, err // the schema check reports it
	}
	explained, err := x.explainClaim(ctx, t)
	if err != nil {
		return nil, err
	}
	problem := explained.problem(t.Name)
	if problem == "" {
		return nil, nil
	}
	return []Finding{t.claimFinding(problem)}, nil
}

func (x *examination) explainClaim(ctx context.Context, t *table) (plan, error) {
	var text []byte
	err := x.read(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL enable_sort = off"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "EXPLAIN (FORMAT JSON, COSTS OFF) "+sqltext.Statement(templates, "claim", t),
			pgx.QueryExecModeSimpleProtocol).Scan(&text)
	})
	if err != nil {
		return plan{}, err
	}
	var explained []struct{ Plan plan }
	if err := json.Unmarshal(text, &explained); err != nil || len(explained) == 0 {
		return plan{}, fmt.Errorf("reading the plan of a claim: %w", err)
	}
	return explained[0].Plan, nil
}

// claimFinding reports that claims read too much, because the claim index is missing or not used.
func (t *table) claimFinding(problem string) Finding {
	var columns []string
	for _, l := range t.Lanes() {
		columns = append(columns, l.Quoted)
	}
	index := pgx.Identifier{t.Name + "_claim_idx"}.Sanitize()
	f := Finding{
		Title:    fmt.Sprintf("%s: claims do not use the index %s_claim_idx (%s)", t.Name, t.Name, problem),
		Evidence: []Evidence{evidence("plan", problem, "table_bytes", t.Bytes)},
		Remedy: Remedy{Do: "Create the index.", SQL: []string{fmt.Sprintf(
			"CREATE INDEX CONCURRENTLY %s ON %s (%s) WHERE completed_at IS NULL AND NOT waiting;", index, t.Table(),
			strings.Join(append(columns, "due_at", "id"), ", "))}},
		Fixable: !t.Indexed,
	}
	if t.Indexed {
		f.Remedy.Do = "The index exists but the planner prefers another one: drop that if it is yours, or rebuild " +
			"this one."
		f.Remedy.SQL = []string{fmt.Sprintf("REINDEX INDEX CONCURRENTLY %s;", t.Q("_claim_idx"))}
	}
	return f
}

// own tells whether the table belongs to the application and not to the migrations.
func (t *table) own() bool {
	return !slices.Contains(migrations.CoreTables(), t.Name)
}

func sequencesBehind(ctx context.Context, x *examination) (all []Finding, err error) {
	type numbered struct{ Sequence, Table, Column string }
	list, err := readRows[numbered](ctx, x, "sequences", nil, x.Schema, maxSequences)
	if len(list) >= maxSequences {
		x.skip(ctx, x.current.code, "", gap{fmt.Sprintf("there are %d or more sequences: the rest was not looked at",
			maxSequences), ""})
	}
	for _, n := range list {
		var last, greatest int64
		err := x.read(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx,
				fmt.Sprintf(`SELECT (SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END FROM %s AS s),
				coalesce((SELECT max(t.%s) FROM %s AS t), 0)`, n.Sequence, n.Column, n.Table)).Scan(&last, &greatest)
		})
		if err != nil {
			x.skip(ctx, x.current.code, n.Table, err)
			continue
		}
		if last < greatest {
			all = append(all, Finding{
				Title:    fmt.Sprintf("sequence %s is at %d, %s has %d", n.Sequence, last, n.Table, greatest),
				Evidence: []Evidence{evidence("sequence", n.Sequence, "last_value", last, "greatest", greatest)},
				Remedy: Remedy{Do: "Advance the sequence.",
					SQL: []string{fmt.Sprintf("SELECT setval('%s', (SELECT max(%s) FROM %s));", n.Sequence, n.Column,
						n.Table)}},
				Fixable: true,
			})
		}
	}
	return all, err
}

func publicRights(ctx context.Context, x *examination) ([]Finding, error) {
	type right struct{ What, Revoke string }
	list, err := readRows[right](ctx, x, "public", nil, x.Schema, maxSample)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	f := Finding{
		Title: fmt.Sprintf("PUBLIC has %s in schema %s", counted(int64(len(list)), len(list) >= maxSample, "privilege"),
			x.Schema),
		Remedy: Remedy{Do: "Revoke them. `txwork roles` grants each role what it needs.",
			Commands: []string{x.command("roles")}},
	}
	for i, r := range list {
		if i < maxShown {
			f.Evidence = append(f.Evidence, evidence("privilege", r.What))
		}
		f.Remedy.SQL = append(f.Remedy.SQL, r.Revoke)
	}
	return []Finding{f}, nil
}

func sidePolicies(ctx context.Context, x *examination) (all []Finding, err error) {
	type unlike struct {
		Name            string
		Secured         bool
		Sides, Remedies []string
	}
	list, err := readRows[unlike](ctx, x, "sides", nil, x.Schema)
	for _, u := range list {
		title := "%s: no row-level security, but its side tables have it: %s"
		if u.Secured {
			title = "%s: row-level security, but none for %s"
		}
		all = append(all, Finding{
			Table:    u.Name,
			Title:    fmt.Sprintf(title, u.Name, strings.Join(u.Sides, ", ")),
			Evidence: []Evidence{evidence("tables", u.Sides)},
			Remedy:   Remedy{Do: "Call these functions as the owner of the tables.", SQL: u.Remedies},
		})
	}
	return all, err
}
