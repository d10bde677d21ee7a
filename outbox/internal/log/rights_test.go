package log_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox/internal/log"
)

// as makes a role with rights on everything in the schema, and a pool of its sessions.
func (f *fixture) as(rights string) *pgxpool.Pool {
	f.Helper()
	role := "r_" + f.DB.Schema
	f.exec(f.Pool, "CREATE ROLE "+role+" LOGIN")
	f.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := f.Pool.Exec(context.Background(), sql); err != nil {
				f.Error(err)
			}
		}
	})
	f.exec(f.Pool, strings.ReplaceAll(strings.ReplaceAll(rights, "{role}", role), "{schema}", f.DB.Schema))
	return pgtest.NewPool(f.T, f.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.User, c.ConnConfig.Password = role, ""
	}))
}

const allRights = `GRANT USAGE ON SCHEMA {schema} TO {role};
	GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
	GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {role}`

// A role from which row-level security hides rows of any table would take what it does not see for settled.
func TestWhoSeesAPartIsRefused(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	role := f.as(allRights)
	f.exec(role, "CALL "+f.name+"_tick()")
	p, err := fetch(f.Context(), role, f.name, "s", uuid.New(), lease, 10)
	f.ok(err)
	f.want("a role that sees all", p.payloads(), "m")
	for _, table := range []string{"", "_tick", "_subscription", "_position", "_parked", "_state"} {
		f.exec(f.Pool, "ALTER TABLE "+f.name+table+" ENABLE ROW LEVEL SECURITY")
		for _, call := range []string{
			"CALL {log}_tick()", "CALL {log}_trim()", "SELECT {log}_subscribe('t')", "SELECT {log}_rebase()",
			"SELECT {log}_fetch('s', $1, '1 minute', 10)", "SELECT {log}_settle('s', $1, 1)",
			"SELECT {log}_extend('s', $1, '1 minute')", "SELECT * FROM {log}_lag()",
		} {
			var args []any
			if strings.Contains(call, "$1") {
				args = append(args, p.token)
			}
			_, err := role.Exec(f.Context(), strings.ReplaceAll(call, "{log}", f.name), args...)
			f.refused(call+" without rows of outbox_log"+table, err, "42501")
		}
		f.exec(f.Pool, "ALTER TABLE "+f.name+table+" DISABLE ROW LEVEL SECURITY")
	}
	for _, table := range []string{"_later", "_dedup"} {
		f.exec(f.Pool, "ALTER TABLE "+f.name+table+" ENABLE ROW LEVEL SECURITY")
		_, err := role.Exec(f.Context(), "CALL "+f.name+"_trim()")
		f.refused("trim without rows of outbox_log"+table, err, "42501")
		f.exec(f.Pool, "ALTER TABLE "+f.name+table+" DISABLE ROW LEVEL SECURITY")
	}
}

// A producer needs to insert, and the number that it draws: nothing of ticks, positions and subscriptions.
func TestWhatAProducerNeeds(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	producer := f.as(`GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT INSERT (id, topic, key, headers, payload) ON {schema}.outbox_log TO {role};
		GRANT USAGE ON SEQUENCE {schema}.outbox_log_seq TO {role};
		GRANT EXECUTE ON FUNCTION {schema}.outbox_log_append TO {role}`)
	f.append(producer, "by function")
	f.exec(producer, "INSERT INTO "+f.name+" (topic, payload) VALUES ('t', 'by SQL')")
	for _, column := range []string{"xid", "seq", "created_at", "slot"} {
		_, err := producer.Exec(f.Context(), "INSERT INTO "+f.name+" (topic, payload, "+column+") "+
			"VALUES ('t', '', DEFAULT)")
		f.refused("a producer that gives "+column, err, "42501")
	}
	_, err := producer.Exec(f.Context(), "SELECT FROM "+f.name)
	f.refused("a producer that reads", err, "42501")
	f.want("all", f.drain("s", 10), "by function", "by SQL")
}

// Nobody has a right on a function of the log unless it was granted.
func TestFunctionsAreNobodys(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	public := value[[]string](f, f.Pool, `SELECT coalesce(array_agg(p.oid::regprocedure::text), '{}') FROM pg_proc AS p
		WHERE p.pronamespace = $1::regnamespace AND p.proname LIKE 'outbox\_log\_%'
		AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) AS a WHERE a.grantee = 0))`, f.DB.Schema)
	f.want("functions that everybody may call", public)
}

// A fetch that cannot claim returns nothing: on a standby or behind a pooler that splits reads, a page would be of
// another position.
func TestAFetchIsRefusedWhereItCannotClaim(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	f.tick()
	p := f.fetch("s", 10)
	reader := pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}))
	for _, token := range []uuid.UUID{uuid.New(), p.token} {
		_, err := fetch(f.Context(), reader, f.name, "s", token, lease, 10)
		f.refused("fetch of a session that only reads", err, "25006")
	}
	_, err := settle(f.Context(), reader, f.name, "s", p.token, p.upto)
	f.refused("settle of a session that only reads", err, "25006")
}

// A caller who stays in its transaction after a fetch loses its session as it would lose its lease.
func TestACallerMayNotBeIdleForEver(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	f.tick()
	tx := f.begin()
	p, err := fetch(f.Context(), tx, f.name, "s", uuid.New(), 5*time.Second, 10)
	f.ok(err)
	if got := value[string](f, tx, "SELECT current_setting('idle_in_transaction_session_timeout')"); got != "5s" {
		t.Errorf("after a fetch, a session may be idle for %s, want the lease", got)
	}
	_, err = settle(f.Context(), tx, f.name, "s", p.token, p.upto)
	f.ok(err)
	f.ok(tx.Commit(f.Context()))
	if got := value[string](f, f.Pool, "SELECT current_setting('idle_in_transaction_session_timeout')"); got != "0" {
		t.Errorf("after the transaction, a session may be idle for %s, want for ever", got)
	}
}

// Who ticks has everything appended that is due, whatever of it row-level security hides from its own role.
func TestATickAppendsWhatItsRoleDoesNotSee(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	role := f.as(allRights)
	f.schedule(f.Pool, "", "due", time.Minute)
	f.passTime(time.Hour)
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_later ENABLE ROW LEVEL SECURITY")
	f.exec(role, "CALL "+f.name+"_tick()")
	f.want("still scheduled", f.scheduled())
	f.want("s", f.drain("s", 10), "due")
}

// owned is a log whose owner is no superuser, so that FORCE ROW LEVEL SECURITY hides rows from it.
func owned(t *testing.T) (f *fixture, owner *pgxpool.Pool) {
	t.Helper()
	db := pgtest.New(t)
	up, _, err := log.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	db.Define(t, up)
	f = &fixture{T: t, DB: db, name: db.Schema + ".outbox_log"}
	owner = f.as("GRANT ALL ON SCHEMA {schema} TO {role}")
	for _, sql := range value[[]string](f, f.Pool, `SELECT array_agg(format(o.sql, o.name, $2::text))
		FROM (
			SELECT 'ALTER TABLE %s OWNER TO %I', c.oid::regclass::text FROM pg_class AS c
			WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')
			UNION ALL
			SELECT 'ALTER SEQUENCE %s OWNER TO %I', c.oid::regclass::text FROM pg_class AS c
			WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'S'
			  AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'i')
			UNION ALL
			SELECT 'ALTER ROUTINE %s OWNER TO %I', p.oid::regprocedure::text FROM pg_proc AS p
			WHERE p.pronamespace = $1::regnamespace
		) AS o (sql, name)`, db.Schema, "r_"+db.Schema) {
		f.exec(f.Pool, sql)
	}
	return f, owner
}

// A slot of which the owner of the tables sees a part is kept: what is hidden may be what a subscription needs.
func TestASlotOfWhichAPartIsHiddenIsKept(t *testing.T) {
	t.Parallel()
	f, owner := owned(t)
	f.subscribe("s")
	f.in(f.Pool, 0, "passed")
	f.pass("s")
	f.in(f.Pool, 0, "needed")
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_0 ENABLE ROW LEVEL SECURITY")
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_0 FORCE ROW LEVEL SECURITY")
	f.exec(f.Pool, "CREATE POLICY seen ON "+f.name+"_0 USING (payload = 'passed')")
	_, err := owner.Exec(f.Context(), "CALL "+f.name+"_trim('0')")
	f.refused("trim", err, "42501")
	f.want("s", f.drain("s", 10), "needed")
}

// A message is refused in a restored log also by an owner of the tables who does not see the ticks that tell of it.
func TestAMessageIsRefusedWhereTicksAreHidden(t *testing.T) {
	t.Parallel()
	f, _ := owned(t)
	f.subscribe("s")
	f.append(f.Pool, "m")
	f.tick()
	f.elsewhere()
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_tick ENABLE ROW LEVEL SECURITY")
	f.exec(f.Pool, "ALTER TABLE "+f.name+"_tick FORCE ROW LEVEL SECURITY")
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_append('topic', '')")
	f.refused("append", err, "42501")
}
