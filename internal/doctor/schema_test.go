package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

func TestAMissingIndex(t *testing.T) {
	w := newWard(t)
	w.exec("DROP INDEX outbox_claim_idx; DROP INDEX jobs_done_idx")
	f := w.finds("schema", []string{"outbox_claim_idx is missing"})
	if f.Severity != doctor.Critical || !f.Fixable {
		t.Errorf("finding %+v", f)
	}
	w.fixes(f, []string{"outbox_claim_idx"})
	w.mends(w.finds("schema", []string{"jobs_done_idx is missing"}), nil)
}

func TestSchemaDrift(t *testing.T) {
	w := newWard(t)
	w.exec("DROP TRIGGER outbox_announce ON outbox; ALTER TABLE jobs DISABLE TRIGGER jobs_record")
	for _, text := range []string{"outbox_announce", "jobs_record"} {
		f := w.finds("schema", []string{text})
		if f.Fixable {
			t.Errorf("--fix would change more than indexes: %+v", f)
		}
		w.mends(f, []string{text})
	}
}

// A table that is missing is one finding, with everything that belonged to it, and so are several.
func TestAMissingTable(t *testing.T) {
	for _, test := range []struct{ drop, title string }{
		{"outbox", "outbox is missing, and its rows are gone"},
		{"jobs_key_note, timers", "jobs_key_note, {schema}.timers are missing, and their rows are gone"},
	} {
		t.Run(test.drop, func(t *testing.T) {
			w := newWard(t)
			w.exec("DROP TABLE " + test.drop + " CASCADE")
			r, err := doctor.Examine(t.Context(), w.Pool, w.options())
			must(t, err)
			var found []doctor.Finding
			for _, f := range r.Findings {
				if f.Code == "schema" {
					found = append(found, f)
				}
			}
			if title := strings.ReplaceAll(test.title, "{schema}", w.Schema); len(found) != 1 ||
				!strings.Contains(found[0].Title, title) {
				t.Fatalf("%d findings, want one with %q in %+v", len(found), title, found)
			}
			for _, statement := range found[0].Remedy.SQL {
				w.exec(statement)
			}
			w.goneNow("schema", nil)
		})
	}
}

func TestPendingMigrations(t *testing.T) {
	w := newEmptyWard(t)
	f := w.finds("schema", []string{"migrations 001_outbox, 002_reaper, ", "006_jobs are pending"})
	if n := len(w.all("schema")); n != 1 {
		t.Errorf("%d findings, want one", n)
	}
	if len(f.Remedy.Commands) != 1 || f.Remedy.Commands[0] != "txwork migrate up --schema "+w.Schema {
		t.Errorf("remedy %+v", f.Remedy)
	}
	w.migrate()
	w.goneAfter(f, byWord, nil)
}

// A pending migration is critical if programs of this version cannot run without it, and else a warning. The migration
// here is the first of the inbox; its tables are invented.
func TestAPendingMigrationIsAsUrgentAsItIsNeeded(t *testing.T) {
	w := newEmptyWard(t)
	w.migrate(migrations.Reaper, migrations.Outbox)
	w.exec("INSERT INTO schema_domain (name) VALUES ('inbox')")
	spec := workqueue.Spec{Schema: w.Schema, Table: "letters", Version: 2, OldestTable: 1}
	up, _, err := workqueue.Spec{Schema: w.Schema, Table: "letters"}.DDL()
	must(t, err)
	w.exec(up)
	opened := func(all ...workqueue.Spec) func(*doctor.Options) {
		return func(o *doctor.Options) {
			o.Programs = map[migrations.Domain][]workqueue.Spec{migrations.Inbox: all}
		}
	}
	f := w.finds("schema", []string{"migration 003_inbox is pending"}, opened(spec))
	if f.Severity != doctor.Warning || f.Evidence[0].Get("needed_by") != nil ||
		!slices.Equal(f.Remedy.Commands, []string{"txwork migrate up --schema " + w.Schema}) {
		t.Errorf("finding %+v", f)
	}
	spec.OldestTable = 2
	later := workqueue.Spec{Schema: w.Schema, Table: "parcels", Version: 2, OldestTable: 1} // which the migration makes
	for by, all := range map[string][]workqueue.Spec{"inbox": nil, "letters": {spec}, "parcels": {later}} {
		f := w.finds("schema", []string{"migration 003_inbox is pending"}, opened(all...))
		if needed, _ := f.Evidence[0].Get("needed_by").([]string); f.Severity != doctor.Critical ||
			!slices.Equal(needed, []string{by}) {
			t.Errorf("needed by %s: %+v", by, f)
		}
	}

	// What is damaged is found beside it.
	w.exec("DROP INDEX outbox_claim_idx; ALTER TABLE outbox DISABLE TRIGGER outbox_announce")
	for _, text := range []string{"outbox_claim_idx is missing", "outbox_announce of"} {
		if f := w.finds("schema", []string{text}, opened(spec)); f.Severity != doctor.Critical {
			t.Errorf("finding %+v", f)
		}
	}
	w.goneNow("claim-scan", nil)
	w.exec("DELETE FROM schema_version WHERE version_id = 1; COMMENT ON TABLE outbox IS 'txwork core 0'") // it is pending, too
	w.finds("claim-scan", []string{"outbox_claim_idx"}, opened(spec))
}

// A schema that does not record what it has cannot be migrated until it does.
func TestMigrationsThatAreNotRecorded(t *testing.T) {
	w := newWard(t)
	w.exec("DELETE FROM schema_version WHERE version_id = 3")
	f := w.finds("schema", []string{"migration 003_inbox is not recorded, although its tables are there"})
	if f.Severity != doctor.Critical || f.Fixable || len(w.all("schema")) != 1 {
		t.Errorf("finding %+v", f)
	}
	w.mends(f, nil)
}

func TestASchemaOfANewerVersion(t *testing.T) {
	w := newWard(t)
	w.exec("INSERT INTO schema_version (version_id, is_applied) VALUES (999, true)")
	w.exec("COMMENT ON TABLE outbox IS 'txwork core 1, version 2 since 1'")
	w.exec("ALTER TABLE outbox ADD COLUMN tenant text NOT NULL DEFAULT 'none'")
	if all := w.all("schema"); len(all) > 0 { // such a migration is additive
		t.Errorf("found %+v", all)
	}
	w.exec("COMMENT ON TABLE outbox IS 'txwork core 1, version 2'")
	f := w.finds("schema", []string{"version 999", "upgrade the library"})
	w.exec("DELETE FROM schema_version WHERE version_id = 999") // like an upgraded library, which knows the version
	w.exec("COMMENT ON TABLE outbox IS 'txwork core 1'")
	w.goneAfter(f, byWord, nil)
}

func TestInvalidIndexes(t *testing.T) {
	w := newWard(t)
	w.exec("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_done_idx'::regclass")
	f := w.finds("invalid-index", []string{"outbox_done_idx"})
	if all := w.all("schema"); len(all) > 0 {
		t.Errorf("it is told twice: %+v", all)
	}
	w.fixes(f, nil)

	// What an interrupted REINDEX CONCURRENTLY leaves behind.
	w.exec("CREATE INDEX outbox_done_idx_ccnew ON outbox (completed_at)")
	w.exec("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_done_idx_ccnew'::regclass")
	f = w.finds("invalid-index", []string{"outbox_done_idx_ccnew", "DROP INDEX CONCURRENTLY"})
	if f.Fixable {
		t.Error("--fix would drop an index")
	}
	w.mends(f, nil)
}

// The migrations do not know the tables of an application.
func TestClaimsThatScan(t *testing.T) {
	w := newWard(t)
	for _, spec := range []workqueue.Spec{
		{Schema: w.Schema, Table: "letters"},
		{Schema: w.Schema, Table: "parcels", Lanes: []string{"depot", "class"}, Columns: []workqueue.Column{
			{Name: "depot", Type: "text", NotNull: true}, {Name: "class", Type: "smallint", NotNull: true}}},
	} {
		up, _, err := spec.DDL()
		must(t, err)
		w.exec(up)
		w.goneNow("claim-scan", nil)
		w.exec("DROP INDEX " + spec.Table + "_claim_idx")
		w.fixes(w.finds("claim-scan", []string{spec.Table}), nil)

		// Another index that the planner prefers.
		w.exec("ALTER INDEX " + spec.Table + "_claim_idx RENAME TO other")
		f := w.finds("claim-scan", []string{spec.Table, "other"})
		w.exec("DROP INDEX other")
		w.mends(f, nil)

		// Another index as good as the claim index: of two alike, the planner takes the newer one.
		lanes := strings.Join(append(spec.Lanes, "due_at", "id"), ", ")
		w.exec("CREATE INDEX other ON " + spec.Table + " (" + lanes + ") WHERE completed_at IS NULL AND NOT waiting")
		w.mends(w.finds("claim-scan", []string{spec.Table, "other", "REINDEX"}), nil)
		w.exec("DROP INDEX other")
	}
}

func TestASchemaOfOwnTablesNeedsNoMigrations(t *testing.T) {
	w := newEmptyWard(t)
	up, _, err := workqueue.Spec{Schema: w.Schema, Table: "letters"}.DDL()
	must(t, err)
	w.exec(up)
	if f := w.examine().Findings; len(f) > 0 {
		t.Errorf("findings %+v", f)
	}
}

func TestASequenceBehindItsTable(t *testing.T) {
	w := newWard(t)
	w.exec("SELECT setval(pg_get_serial_sequence('schema_version', 'id'), 1)")
	w.fixes(w.finds("sequence-behind", []string{"schema_version"}), nil)
}

// Side tables have row-level security if and only if their rows have it.
func TestSideTablesWithoutPolicies(t *testing.T) {
	w := newWard(t)
	w.goneNow("side-policies", nil)
	for _, test := range []struct {
		table     string
		sides     []string
		functions int
	}{
		{"inbox", []string{"inbox_topic"}, 1},
		{"jobs", []string{"jobs_attempt, ", "jobs_key_note", "jobs_step"}, 3},
		{"outbox", []string{"outbox_join, ", "outbox_key_note", "outbox_topic"}, 3},
	} {
		w.exec("ALTER TABLE " + test.table + " ENABLE ROW LEVEL SECURITY")
		f := w.finds("side-policies", append(test.sides, "row-level security, but none for "+test.sides[0]))
		if f.Fixable || len(f.Remedy.SQL) != test.functions || f.Table != test.table {
			t.Errorf("finding %+v", f)
		}
		w.mends(f, nil)
		w.exec("ALTER TABLE " + test.table + " DISABLE ROW LEVEL SECURITY")
		f = w.finds("side-policies", append(test.sides, "no row-level security, but its side tables have it"))
		w.mends(f, nil)
	}
}

func TestRightsOfPublic(t *testing.T) {
	w := newWard(t)
	w.goneNow("public-rights", nil)
	w.exec("GRANT SELECT ON jobs TO PUBLIC; GRANT EXECUTE ON FUNCTION outbox_ack TO PUBLIC")
	f := w.finds("public-rights", []string{"2 privileges", "SELECT on", "outbox_ack"})
	if f.Fixable || len(f.Remedy.SQL) != 2 || !strings.HasPrefix(f.Remedy.SQL[0], "REVOKE ") {
		t.Errorf("finding %+v", f)
	}
	w.mends(f, nil)
}
