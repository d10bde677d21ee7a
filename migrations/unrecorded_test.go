package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// A schema that no longer records what was applied to it is neither migrated again nor taken for an empty one. What
// Validate prints records it, after which everything works.
func TestWhatIsNotRecordedIsRecorded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm   string
		says   string // Up and Down
		rounds int    // of Validate and its DDL
	}{
		"no table of versions":            {"DROP TABLE schema_version", "001_outbox", 1},
		"neither table":                   {"DROP TABLE schema_version, schema_domain", "001_outbox", 1},
		"nothing in the table":            {"DELETE FROM schema_version", "001_outbox", 1},
		"nothing in the tables":           {"DELETE FROM schema_version; DELETE FROM schema_domain", "001_outbox", 1},
		"one migration":                   {"DELETE FROM schema_version WHERE version_id = 3", "003_inbox is not recorded", 1},
		"no table of domains":             {"DROP TABLE schema_domain", "schema_domain", 1},
		"no table of domains, no rows":    {"DROP TABLE schema_domain; DELETE FROM schema_version", "schema_domain", 2},
		"no versions, and part of tables": {"DROP TABLE schema_version; DROP TABLE jobs_schedule CASCADE", "006_jobs", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			m := newMigrator(t, db.Pool, db.Schema)
			up(t, m)
			exec(t, db.Pool, test.harm)
			const remedy = "run the SQL that `txwork migrate validate --schema "
			if _, err := m.Up(t.Context()); !errors.Is(err, workqueue.ErrSchemaVersion) ||
				!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), remedy) {
				t.Errorf("up: %v", err)
			}
			if _, err := m.DownTo(t.Context(), 0); !errors.Is(err, workqueue.ErrSchemaVersion) ||
				!strings.Contains(err.Error(), remedy) {
				t.Errorf("down: %v", err)
			}
			for range test.rounds {
				differences, err := m.Differences(t.Context())
				if err != nil || differences.Err() == nil || strings.Contains(differences.Err().Error(), "migrate up") {
					t.Fatalf("%v, %v", differences.Err(), err)
				}
				for _, d := range differences {
					for _, statement := range d.DDL {
						exec(t, db.Pool, statement)
					}
				}
			}
			if err := m.Validate(t.Context()); err != nil {
				t.Error(err)
			}
			if applied := up(t, m); len(applied) != 0 {
				t.Errorf("applied %v", applied)
			}
			has, absent, err := m.Domains(t.Context())
			if err != nil || !slices.Equal(has, migrations.DefaultDomains()) || len(absent) != 0 {
				t.Errorf("it has %v, not %v: %v", has, absent, err)
			}
			if reverted, err := m.DownTo(t.Context(), 0); err != nil || len(reverted) != len(migrations.All()) {
				t.Errorf("reverted %v: %v", reverted, err)
			}
		})
	}
}

// The versions of the tables say which later migrations were applied. One that was not stays pending.
func TestTablesTellWhichMigrationsWereApplied(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	first := newMigrator(t, db.Pool, db.Schema)
	extend := func(name, version string) {
		migrations.Extend(first, migrations.Outbox, name, `ALTER TABLE "{{schema}}"."outbox" ADD COLUMN `+name+" text;\n"+
			`COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 1, version `+version+`';`, "")
	}
	extend("tenant", "2 since 1")
	up(t, first)
	extend("region", "3 since 1")
	exec(t, db.Pool, "DROP TABLE schema_version; ALTER TABLE jobs DISABLE TRIGGER jobs_record; "+
		"ALTER TABLE outbox DISABLE TRIGGER outbox_announce; DROP INDEX outbox_claim_idx, inbox_claim_idx")
	differences, err := first.Differences(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range differences.Causes() {
		all = append(all, d.String())
	}
	told := strings.Join(all, "\n")
	for _, want := range []string{fmt.Sprintf("%03d_outbox_tenant are not recorded", latest()+1),
		fmt.Sprintf("%03d_outbox_region is pending", latest()+2), "jobs_record of ", "outbox_announce of ",
		"inbox_claim_idx is missing"} {
		if !strings.Contains(told, want) {
			t.Errorf("%s\nlacks %q", told, want)
		}
	}
	if strings.Contains(told, "outbox_claim_idx") { // a pending migration may drop it
		t.Error(told)
	}
}
