//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

// A trouble is one that operators of queues have had. Those of single conditions, such as an expired lease, are in
// remedies.
type trouble struct {
	name  string
	make  func(*cli)
	code  string             // of the finding, or of the check that was not made
	says  []string           // what is told about it
	from  func(*cli) *cli    // who looks; nil: the owner of the tables
	first func(*cli)         // what the remedy says in words, before its commands or its SQL; may be nil
	mend  func(*cli, advice) // how the remedy is followed
}

// advice is what doctor says about a trouble.
type advice struct {
	remedy        string
	commands, sql []string
}

// byCommands runs the commands as printed.
func byCommands(c *cli, a advice) {
	for _, command := range a.commands {
		c.shell(command, 0)
	}
}

func bySQL(c *cli, a advice) {
	for _, statement := range a.sql {
		c.exec(statement)
	}
}

// asAdvised runs the statement at the end of a remedy for a check that was not made.
func asAdvised(c *cli, a advice) { c.exec(a.remedy[strings.LastIndex(a.remedy, ": ")+2:]) }

var troubles = []trouble{
	{
		name: "only tenants maintain the tables", code: "nobody-sees-all", says: []string{"outbox", "BYPASSRLS"},
		make: func(c *cli) {
			c.expired()
			c.tenants()
			c.role(workerRights).run("reap", "outbox").exits(exitFailure).says("row-level security hides rows")
		},
		mend: byCommands,
	},
	{
		name: "a tenant looks", code: "expired-leases", says: []string{"a part of the rows only"},
		make: func(c *cli) {
			c.expired()
			c.tenants()
		},
		from: func(c *cli) *cli { return c.role(workerRights) },
		mend: func(c *cli, _ advice) {
			c.exec("ALTER ROLE {schema}_t BYPASSRLS")
			c.run("reap", "outbox").ok()
		},
	},
	{
		name: "a role that may not read alarms", code: "alarm-failing",
		says: []string{"permission denied for table alarms", "txwork roles"},
		make: func(c *cli) { c.role(workerRights + "; REVOKE SELECT ON {schema}.alarms FROM {role}") },
		from: (*cli).asRole,
		mend: func(c *cli, _ advice) { c.exec("GRANT SELECT ON {schema}.alarms TO {schema}_t") },
	},
	{
		name: "side tables show tenants the keys of others", code: "side-policies",
		says: []string{"outbox_key_note", "outbox_join_member"},
		make: func(c *cli) {
			c.enqueue(outbox.Message{Topic: "a", Payload: []byte("{}")})
			c.exec("ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY")
		},
		mend: bySQL,
	},
	{
		name: "a role whose sessions run no triggers", code: "session-settings",
		says: []string{"session_replication_role is replica for role"},
		make: func(c *cli) {
			role := c.role(workerRights)
			c.exec("ALTER ROLE {schema}_t SET session_replication_role = replica")
			role.run("reap").exits(exitFailure).says("session_replication_role is replica")
		},
		mend: func(c *cli, a advice) {
			bySQL(c, a)
			c.asRole().run("reap").ok()
		},
	},
	{
		name: "a role whose sessions replace PostgreSQL's functions", code: "session-settings",
		says: []string{"search_path is", "pg_catalog for role"},
		make: func(c *cli) {
			role := c.role(workerRights)
			c.exec("ALTER ROLE {schema}_t SET search_path = {schema}, pg_catalog")
			role.run("reap").exits(exitFailure).says("search_path is")
		},
		mend: func(c *cli, a advice) {
			bySQL(c, a)
			c.asRole().run("reap").ok()
		},
	},
	{
		name: "a disabled trigger", code: "schema", says: []string{"trigger outbox_key_enter", "is disabled"},
		make: func(c *cli) {
			c.exec("ALTER TABLE {schema}.outbox DISABLE TRIGGER outbox_key_enter")
			c.run("outbox", "relay", "--stdout", "--until-empty").exits(exitFailure).says("outbox_key_enter")
		},
		mend: bySQL,
	},
	{
		name: "a trigger that runs in replicas only", code: "schema", says: []string{"trigger jobs_join_settle"},
		make: func(c *cli) { c.exec("ALTER TABLE {schema}.jobs ENABLE REPLICA TRIGGER jobs_join_settle") },
		mend: bySQL,
	},
	{
		name: "maintenance by a role without a right", code: "failing-maintenance",
		says: []string{"permission denied", "outbox"},
		make: func(c *cli) {
			role := c.role(workerRights)
			c.expired()
			c.exec("REVOKE UPDATE ON {schema}.outbox FROM {schema}_t")
			role.run("reap").exits(exitFailure).says("permission denied")
		},
		first: func(c *cli) { c.exec("GRANT UPDATE ON {schema}.outbox TO {schema}_t") },
		mend:  byCommands,
	},
	{
		name: "a foreign key on a done job", code: "failing-maintenance", says: []string{"invoice", "jobs"},
		make: func(c *cli) {
			c.doneLongAgo("jobs", 3)
			c.exec("CREATE TABLE {schema}.invoice AS SELECT id AS job FROM {schema}.jobs LIMIT 1")
			c.exec("ALTER TABLE {schema}.invoice ADD FOREIGN KEY (job) REFERENCES {schema}.jobs")
			c.run("reap").exits(exitFailure).says("invoice")
		},
		first: func(c *cli) { c.exec("DROP TABLE {schema}.invoice") },
		mend:  byCommands,
	},
	{
		name: "more rows past their retention than one batch", code: "retention", says: []string{"30 days"},
		make: func(c *cli) { c.doneLongAgo("jobs", 2500) },
		mend: func(c *cli, a advice) {
			byCommands(c, a)
			if n := value[int](c, "SELECT count(*) FROM {schema}.jobs"); n != 0 {
				c.t.Errorf("%d jobs are left", n)
			}
		},
	},
	{
		name: "a locked table", code: "unserved", says: []string{"outbox", "AccessExclusiveLock", "LOCK TABLE"},
		make: func(c *cli) {
			c.overdue()
			conn := c.session("by_hand")
			for _, statement := range []string{"BEGIN", "LOCK TABLE " + c.db.Schema + ".outbox"} {
				_, err := conn.Exec(c.t.Context(), statement)
				must(c.t, err)
			}
		},
		mend: func(c *cli, a advice) {
			asAdvised(c, a)
			c.exec("DELETE FROM {schema}.outbox")
		},
	},
	{
		name: "a schedule that fails at every attempt", code: "schedule-failing", says: []string{"report", "template"},
		make: func(c *cli) {
			c.run("schedules", "put", "report", "@hourly", "--topic", "report").ok()
			c.exec("UPDATE {schema}.timers_schedule SET template = 'torn', due_at = now() - interval '28 minutes', " +
				"next_at = now() - interval '28 minutes'")
			c.workUntil("timers: {topics: {report: {exec: cat}}}",
				"SELECT bool_and(attempts > 0 AND status = 0) FROM {schema}.timers_schedule")
		},
		first: func(c *cli) { c.run("schedules", "put", "report", "@hourly", "--topic", "report").ok() },
		mend:  byCommands,
	},
	{
		name: "jobs of a kind that every worker leaves to others", code: "unknown-handler",
		says: []string{`kind "greeting"`, "1 row"},
		make: func(c *cli) {
			c.greet(jobs.Insert{})
			c.workUntil("jobs: {unknown: leave, kinds: {other: {exec: cat}}}",
				"SELECT bool_and(status = 0 AND attempts = 0 AND due_at > now() + interval '1 s') FROM {schema}.jobs").ok()
			c.exec("UPDATE {schema}.jobs SET last_error = regexp_replace(last_error, ' since .*', ' since 2026-11-01T00:00:00Z')")
		},
		mend: func(c *cli, _ advice) {
			c.exec("UPDATE {schema}.jobs SET due_at = now()")
			c.workUntil(`jobs: {kinds: {"*": {exec: cat > /dev/null}}}`, "SELECT bool_and(status = 2) FROM {schema}.jobs").ok()
		},
	},
	{
		name: "a missing table", code: "schema", says: []string{"jobs_key_note is missing"},
		make: func(c *cli) { c.exec("DROP TABLE {schema}.jobs_key_note CASCADE") },
		mend: bySQL,
	},
	{
		name: "a missing function", code: "schema", says: []string{"jobs_slot_sweep"},
		make: func(c *cli) { c.exec("DROP FUNCTION {schema}.jobs_slot_sweep CASCADE") },
		mend: bySQL,
	},
	{
		name: "a renamed schema", code: "schema", says: []string{"was renamed"},
		make: func(c *cli) {
			former := c.db.Schema
			c.exec("ALTER SCHEMA {schema} RENAME TO {schema}_y")
			c.db.Schema += "_y"
			c.t.Cleanup(func() {
				_, err := c.db.Pool.Exec(context.Background(), "ALTER SCHEMA "+former+"_y RENAME TO "+former)
				must(c.t, err)
			})
		},
		mend: func(c *cli, a advice) {
			bySQL(c, a)
			c.run("migrate", "up").ok()
			box, err := outbox.Open(outbox.Options{Schema: c.db.Schema, Ordering: outbox.PerKey})
			must(c.t, err)
			c.outbox = box
			m := outbox.Message{Topic: "ship", Key: "order 17", Payload: []byte("{}")}
			c.enqueue(m, m, m)
			c.run("outbox", "relay", "--stdout", "--until-empty").ok()
			if n := value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE status = 2"); n != 3 {
				c.t.Errorf("%d of 3 ordered messages are done", n)
			}
		},
	},
}

// Each trouble is found, or the check that would find it is named as one that was not made, with the remedy that ends
// it. Until then, doctor says neither in words nor by its exit code nor in its JSON that nothing is wrong.
func TestEachTroubleIsFoundAndMended(t *testing.T) {
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			c := newMigratedCLI(t)
			trouble.make(c)
			looks := c
			if trouble.from != nil {
				looks = trouble.from(c)
			}
			found := looks.advised(trouble)
			if trouble.first != nil {
				trouble.first(c)
			}
			trouble.mend(c, found)
			p := decode[printed](looks.doctor("--json", "--fail-on", "never").ok())
			for _, f := range p.Findings {
				if f.Code == trouble.code {
					t.Errorf("after %+v it is still there: %+v", found, f)
				}
			}
			for _, s := range p.Skipped {
				t.Errorf("after %+v this was not looked at: %v", found, s)
			}
		})
	}
}

// advised returns what doctor says about a trouble.
func (c *cli) advised(tr trouble) (found advice) {
	c.t.Helper()
	r := c.doctor("--json")
	p := decode[printed](r)
	if r.code == exitOK || p.Healthy {
		c.t.Errorf("exit code %d, healthy: %t", r.code, p.Healthy)
	}
	c.doctor().exits(r.code)
	said := []string{}
	for _, f := range p.Findings {
		if text := fmt.Sprintf("%+v", f); f.Code == tr.code {
			said, found = append(said, text), advice{f.Remedy.Do, f.Remedy.Commands, f.Remedy.SQL}
		}
	}
	if len(said) == 0 {
		for _, s := range p.Skipped {
			if text := fmt.Sprintf("%+v", s); s["check"] == tr.code {
				remedy, _ := s["remedy"].(string)
				said, found = append(said, text), advice{remedy: remedy}
			}
		}
	}
	if len(said) != 1 {
		c.t.Fatalf("told %d times: %+v", len(said), p)
	}
	contains(c.t, "what is told", said[0], tr.says...)
	return found
}

// workerRights lets a role do everything that needs no ownership.
const workerRights = "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; " +
	"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO " +
	"{role}; GRANT pg_read_all_stats TO {role}"

// role creates the role {schema}_t, which is dropped with the test, and returns the same cli for it.
func (c *cli) role(rights string) *cli {
	c.t.Helper()
	name := c.db.Schema + "_t"
	c.exec("CREATE ROLE " + name + " LOGIN")
	c.t.Cleanup(func() {
		for _, s := range []string{"DROP OWNED BY " + name, "DROP ROLE " + name} {
			if _, err := c.db.Pool.Exec(context.Background(), s); err != nil {
				c.t.Errorf("%s: %v", s, err)
			}
		}
	})
	c.exec(strings.ReplaceAll(rights, "{role}", name))
	return c.asRole()
}

// asRole returns the same cli for that role.
func (c *cli) asRole() *cli {
	c.t.Helper()
	config, err := pgx.ParseConfig(c.url)
	must(c.t, err)
	other := *c
	other.url = strings.Replace(c.url, "//"+config.User+"@", "//"+c.db.Schema+"_t@", 1)
	return &other
}

// tenants shows each role the messages of its own topic only.
func (c *cli) tenants() {
	c.t.Helper()
	c.exec("ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON {schema}.outbox USING " +
		"(topic = current_user); SELECT {schema}.outbox_key_policies(); SELECT {schema}.outbox_join_policies(); " +
		"SELECT {schema}.outbox_topic_policies()")
}

// doneLongAgo writes rows that are past their retention.
func (c *cli) doneLongAgo(table string, n int) {
	c.t.Helper()
	c.exec(fmt.Sprintf(`INSERT INTO {schema}.%s (kind, queue, priority, args, status, attempts, completed_at)
		SELECT 'k', 'default', 2, '{}', 2, 1, now() - interval '30 days' FROM generate_series(1, %d)`, table, n))
}
