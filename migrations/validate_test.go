package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// newer records a migration that this library does not know.
var newer = fmt.Sprintf("INSERT INTO schema_version (version_id, is_applied) VALUES (%d, true)", latest()+1)

// downOfReaper drops what the migration 002_reaper makes.
const downOfReaper = `DROP FUNCTION require, protocol; DROP PROCEDURE process_beat; DROP FUNCTION owner_token; DROP TABLE process;
	DROP FUNCTION leader_note, history_merge; DROP TABLE leader, history, history_flush, history_keep`

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		want   []string // nothing means valid
	}{
		"as migrated":          {"", nil},
		"a table of the app's": {"CREATE TABLE app (id int); COMMENT ON TABLE app IS 'txwork it is not'", nil},
		"a custom table":       {"CREATE TABLE mine (id int); COMMENT ON TABLE mine IS 'txwork core 1'", nil},
		"an older custom table": {"CREATE TABLE mine (id int); COMMENT ON TABLE mine IS 'txwork core 0'",
			[]string{"mine was made for version 0", "migrate it"}},
		"a newer custom table": {"CREATE TABLE mine (id int); COMMENT ON TABLE mine IS 'txwork core 7'",
			[]string{"mine was made for version 7", "upgrade the library"}},
		"a newer outbox": {"COMMENT ON TABLE outbox IS 'txwork core 2'",
			[]string{".outbox was made for version 2", "upgrade the library"}},
		"a pending migration": {"DELETE FROM schema_version WHERE version_id = 2; " + downOfReaper,
			[]string{"002_reaper is pending", "txwork migrate up"}},
		"nothing is recorded": {"DROP TABLE schema_version", []string{allMigrations() + " are not recorded, although"}},
		"damage beside a pending migration": {`DELETE FROM schema_version WHERE version_id = 2; ` + downOfReaper + `;
			DROP INDEX jobs_done_idx`, []string{"002_reaper is pending", "jobs_done_idx is missing"}},
		"a newer library, which the tables serve": {newer, nil},
		"a newer library's additions": {newer + `; COMMENT ON TABLE outbox IS 'txwork core 2 since 1, version 3 since 1';
			ALTER TABLE outbox ADD COLUMN tenant text NOT NULL DEFAULT 'none'; CREATE INDEX outbox_tenant_idx ON outbox (tenant);
			CREATE FUNCTION outbox_fold_step(max_notes integer) RETURNS integer LANGUAGE sql AS 'SELECT 0'`,
			nil},
		"damage to a newer library's table": {newer + `; COMMENT ON TABLE outbox IS 'txwork core 1, version 2 since 1';
			ALTER TABLE outbox SET UNLOGGED`, []string{"outbox is UNLOGGED"}},
		"damage beside a newer library's table": {newer + `; COMMENT ON TABLE outbox IS 'txwork core 1, version 2 since 1';
			DROP INDEX jobs_done_idx`, []string{"jobs_done_idx is missing"}},
		"a newer election": {newer + "; COMMENT ON TABLE leader IS 'txwork leader 2 since 1'; DROP FUNCTION leader_note",
			nil},
		"a changed comment": {"COMMENT ON TABLE outbox IS 'txwork core 0'", []string{"its comment was changed"}},
		"a newer library": {newer + "; COMMENT ON TABLE jobs IS 'txwork core 1, version 4 since 2'",
			[]string{fmt.Sprintf("version %d", latest()+1), fmt.Sprintf("up to %d", latest()), "upgrade the library"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			m := newMigrator(t, db.Pool, db.Schema)
			up(t, m)
			exec(t, db.Pool, test.change)
			err := m.Validate(t.Context())
			if (err == nil) != (test.want == nil) || err != nil && !errors.Is(err, workqueue.ErrSchemaVersion) {
				t.Fatalf("%v", err)
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v\nlacks %q", err, text)
				}
			}
		})
	}
}

func allMigrations() string {
	var names []string
	for _, m := range migrations.All() {
		names = append(names, m.Name)
	}
	return "migrations " + strings.Join(names, ", ")
}

func TestValidateWithoutSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	schema := unmade(t, db)
	err := newMigrator(t, db.Pool, schema).Validate(t.Context())
	if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), schema) {
		t.Error(err)
	}
	if schemaExists(t, db.Pool, schema) {
		t.Error("validate made the schema")
	}
}

// fails marks a statement that is expected to fail, and that leaves an object behind.
const fails = "fails: "

// Validate names what is broken, and the DDL of the difference repairs it.
func TestWhatIsBrokenIsNamedAndMended(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	for name, test := range map[string]struct {
		breakage []string
		want     []string // the differences, with {schema}
	}{
		"the claim index dropped": {
			[]string{"DROP INDEX outbox_claim_idx"},
			[]string{"index {schema}.outbox_claim_idx is missing"}},
		"an index that could not be built": {
			[]string{"DROP INDEX outbox_unique_idx",
				"INSERT INTO outbox (topic, payload, dedup_key) SELECT 'a', '', 'b' FROM generate_series(1, 2)",
				fails +
					`CREATE UNIQUE INDEX CONCURRENTLY outbox_unique_idx ON outbox (topic, dedup_key) WHERE topic IS NOT NULL AND dedup_key IS NOT NULL`,
				"DELETE FROM outbox"},
			[]string{"index {schema}.outbox_unique_idx is invalid"}},
		"another index of the name": {
			[]string{"DROP INDEX outbox_claim_idx",
				"CREATE INDEX outbox_claim_idx ON outbox (due_at, id) WHERE completed_at IS NULL"},
			[]string{"index {schema}.outbox_claim_idx has the definition "}},
		"a trigger disabled": {
			[]string{"ALTER TABLE outbox DISABLE TRIGGER outbox_key_note"},
			[]string{"trigger outbox_key_note of {schema}.outbox is disabled"}},
		"all triggers disabled but for replicas": {
			[]string{"ALTER TABLE inbox ENABLE REPLICA TRIGGER inbox_announce"},
			[]string{"trigger inbox_announce of {schema}.inbox is disabled"}},
		"another trigger of the name": {
			[]string{"CREATE OR REPLACE TRIGGER inbox_announce AFTER INSERT ON inbox EXECUTE FUNCTION inbox_announce()"},
			[]string{"trigger inbox_announce of {schema}.inbox has the definition "}},
		"a function dropped": {
			[]string{"DROP FUNCTION outbox_reap_expired"},
			[]string{"function {schema}.outbox_reap_expired(integer) is missing"}},
		"a function and its triggers dropped": {
			[]string{"DROP FUNCTION jobs_announce CASCADE"},
			[]string{"function {schema}.jobs_announce() is missing",
				"trigger jobs_announce of {schema}.jobs is missing",
				"trigger jobs_queue_announce of {schema}.jobs_queue is missing"}},
		"a function's body": {
			[]string{"DO $$ BEGIN EXECUTE replace(pg_get_functiondef('outbox_key_note'::regproc), 'BEGIN', 'BEGIN " +
				"RETURN NULL;'); END $$"},
			[]string{"function {schema}.outbox_key_note() does something else"}},
		"a function's settings": {
			[]string{"ALTER FUNCTION outbox_fetch RESET ALL"},
			[]string{"function {schema}.outbox_fetch(uuid, interval, integer, text, text[], boolean) has no settings, needs " +
				"search_path=pg_catalog, pg_temp; enable_seqscan=off"}},
		"whose rights a function has": {
			[]string{"ALTER FUNCTION outbox_redrive SECURITY DEFINER STABLE STRICT PARALLEL SAFE"},
			[]string{"function {schema}.outbox_redrive(uuid[], text) has the volatility STABLE, needs VOLATILE; is STRICT; " +
				"is SECURITY DEFINER; has the parallel safety SAFE, needs UNSAFE"}},
		"a function's arguments": {
			[]string{"DROP FUNCTION outbox_complete", "CREATE FUNCTION outbox_complete(token uuid, job uuid) RETURNS " +
				"integer LANGUAGE sql AS 'SELECT 1'"},
			[]string{"function {schema}.outbox_complete(uuid, uuid) has the arguments token uuid, job uuid, needs " +
				"owner_token uuid, id uuid; has the result integer"}},
		"a procedure that is a function": {
			[]string{"DROP PROCEDURE inbox_maintain",
				"CREATE FUNCTION inbox_maintain(integer, interval, interval) RETURNS integer LANGUAGE sql AS 'SELECT 1'"},
			[]string{"function {schema}.inbox_maintain(integer, interval, interval) is a function"}},
		"a function of the same name": {
			[]string{"CREATE FUNCTION outbox_fold_step(max_notes bigint) RETURNS integer LANGUAGE sql AS " +
				"'SELECT 1'"},
			[]string{"function {schema}.outbox_fold_step(bigint) is not txwork's"}},
		"a check dropped": {
			[]string{"ALTER TABLE outbox DROP CONSTRAINT outbox_state_check"},
			[]string{"constraint outbox_state_check of {schema}.outbox is missing"}},
		"a check that old rows may break": {
			[]string{"ALTER TABLE jobs DROP CONSTRAINT jobs_attempts_check",
				"ALTER TABLE jobs ADD CONSTRAINT jobs_attempts_check CHECK (max_attempts > 0 AND attempts >= 0 AND " +
					"attempts - status < max_attempts) NOT VALID"},
			[]string{"constraint jobs_attempts_check of {schema}.jobs is NOT VALID"}},
		"another check of the name": {
			[]string{"ALTER TABLE jobs DROP CONSTRAINT jobs_attempts_check",
				"ALTER TABLE jobs ADD CONSTRAINT jobs_attempts_check CHECK (attempts >= 0)"},
			[]string{"constraint jobs_attempts_check of {schema}.jobs has the definition "}},
		"a primary key dropped": {
			[]string{"ALTER TABLE jobs_step DROP CONSTRAINT jobs_step_pkey"},
			[]string{"constraint jobs_step_pkey of {schema}.jobs_step is missing"}},
		"a column's default": {
			[]string{"ALTER TABLE outbox ALTER COLUMN max_attempts SET DEFAULT 1"},
			[]string{"column {schema}.outbox.max_attempts has the default 1, needs 130"}},
		"a column without its default": {
			[]string{"ALTER TABLE outbox_join ALTER COLUMN look_at DROP DEFAULT"},
			[]string{"column {schema}.outbox_join.look_at has no default, needs (now() + '00:01:00'::interval)"}},
		"a column that may be null": {
			[]string{"ALTER TABLE timers ALTER COLUMN fire_at DROP NOT NULL"},
			[]string{"column {schema}.timers.fire_at lacks NOT NULL"}},
		"a column that may not be null": {
			[]string{"ALTER TABLE outbox ALTER COLUMN key SET NOT NULL"},
			[]string{"column {schema}.outbox.key is NOT NULL"}},
		"a column of another type": {
			[]string{"ALTER TABLE alarms ALTER COLUMN failure_count TYPE bigint"},
			[]string{"column {schema}.alarms.failure_count has the type bigint, needs integer"}},
		"a column that is not checked": {
			[]string{"ALTER TABLE outbox ALTER COLUMN retry TYPE jsonb"},
			[]string{"column {schema}.outbox.retry has the type jsonb, needs {schema}.outbox_retry"}},
		"a column of another collation": {
			[]string{`ALTER TABLE jobs_step ALTER COLUMN name TYPE text COLLATE "C"`},
			[]string{`column {schema}.jobs_step.name has the collation "C", needs none`}},
		"a column that no longer numbers itself": {
			[]string{"ALTER TABLE schema_version ALTER COLUMN id DROP IDENTITY"},
			[]string{"column {schema}.schema_version.id has no identity, needs BY DEFAULT"}},
		"a column that always numbers itself": {
			[]string{"ALTER TABLE schema_version ALTER COLUMN id SET GENERATED ALWAYS"},
			[]string{"column {schema}.schema_version.id has the identity ALWAYS, needs BY DEFAULT"}},
		"somebody's column that every insert has to name": {
			[]string{"ALTER TABLE outbox ADD COLUMN tenant text NOT NULL"},
			[]string{"column {schema}.outbox.tenant is not txwork's, NOT NULL and without a default: every insert fails"}},
		"somebody's column of a strange name": {
			[]string{"ALTER TABLE outbox ADD COLUMN \"a\"\"\nb\" text NOT NULL"},
			[]string{`column {schema}.outbox.a" b is not txwork's`}},
		"a column dropped": {
			[]string{"ALTER TABLE outbox DROP COLUMN retry"},
			[]string{"column {schema}.outbox.retry is missing"}},
		"a table dropped": {
			[]string{"DROP TABLE outbox CASCADE"},
			[]string{"table {schema}.outbox is missing, and its rows are gone",
				"constraint outbox_pkey of {schema}.outbox is missing",
				"index {schema}.outbox_claim_idx is missing",
				"function {schema}.outbox_claim_by_topic(uuid, interval, integer, timestamp with time zone[], uuid[], " +
					"text[], text[], timestamp with time zone[], uuid[], integer[], boolean) is missing",
				"trigger outbox_announce of {schema}.outbox is missing"}},
		"a table that a crash empties": {
			[]string{"ALTER TABLE jobs SET UNLOGGED"},
			[]string{"table {schema}.jobs is UNLOGGED"}},
		"a table's comment": {
			[]string{"COMMENT ON TABLE outbox IS 'hello'"},
			[]string{"table {schema}.outbox has no comment that says for which version of the core it was made"}},
		"a sequence dropped": {
			[]string{"DROP SEQUENCE outbox_key_seq"},
			[]string{"sequence {schema}.outbox_key_seq is missing"}},
		"a sequence that caches": {
			[]string{"ALTER SEQUENCE jobs_key_seq CACHE 100"},
			[]string{"sequence {schema}.jobs_key_seq has the definition "}},
		"a type dropped": {
			[]string{"DROP DOMAIN jobs_retry CASCADE"},
			[]string{"domain {schema}.jobs_retry is missing",
				"domain constraint jobs_retry_check of {schema}.jobs_retry is missing",
				"column {schema}.jobs.retry is missing"}},
		"a type's check dropped": {
			[]string{"ALTER DOMAIN jobs_retry DROP CONSTRAINT jobs_retry_check"},
			[]string{"domain constraint jobs_retry_check of {schema}.jobs_retry is missing"}},
		"another check of a type": {
			[]string{"ALTER DOMAIN jobs_retry DROP CONSTRAINT jobs_retry_check",
				"ALTER DOMAIN jobs_retry ADD CONSTRAINT jobs_retry_check CHECK (true) NOT VALID"},
			[]string{"domain constraint jobs_retry_check of {schema}.jobs_retry has the definition "}},
		"a type that must have a value": {
			[]string{"ALTER DOMAIN jobs_retry SET NOT NULL", "ALTER DOMAIN jobs_retry SET DEFAULT '{}'"},
			[]string{"domain {schema}.jobs_retry is NOT NULL; has the default '{}'::jsonb, needs none"}},
	} {
		mended := t.Run(name, func(t *testing.T) {
			for _, statement := range test.breakage {
				if statement, ok := strings.CutPrefix(statement, fails); ok {
					if _, err := db.Pool.Exec(t.Context(), statement); err == nil {
						t.Fatalf("%s: no error", statement)
					}
					continue
				}
				exec(t, db.Pool, statement)
			}
			err := m.Validate(t.Context())
			found := new(migrations.SchemaError)
			if !errors.As(err, &found) || !errors.Is(err, workqueue.ErrSchemaVersion) {
				t.Fatalf("validate says %v", err)
			}
			for _, want := range test.want {
				want = strings.ReplaceAll(want, "{schema}", db.Schema)
				if !slices.ContainsFunc(found.Differences,
					func(d migrations.Difference) bool { return strings.HasPrefix(d.String(), want) }) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			mend(t, db.Pool, found.Differences)
			if err := m.Validate(t.Context()); err != nil {
				t.Errorf("mended, %v", err)
			}
		})
		if !mended {
			break // otherwise the remaining cases would find it, too
		}
	}
}

// mend runs the statements in their order, each in a transaction of its own.
func mend(t *testing.T, pool *pgxpool.Pool, differences migrations.Differences) {
	t.Helper()
	for _, d := range differences {
		if len(d.DDL) == 0 {
			t.Errorf("nothing mends that %s", d)
		}
		for _, statement := range d.DDL {
			exec(t, pool, statement)
		}
	}
}
