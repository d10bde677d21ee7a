//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// An advised is a message that tells its reader what to do, and a situation in which it is printed.
type advised struct {
	says string // a part of the message, as the source has it
	when string // what tells situations of one message apart
	make func(*testing.T) (*cli, call)
	by   func(*cli) // does what the message says in words; nil: the commands and statements that it prints are run
}

// A call is what fails with the message, and no longer fails once the advice was followed.
type call func() error

// Each advice is followed as printed, and what failed then works.
func TestAdviceHelps(t *testing.T) {
	t.Parallel()
	for _, a := range advices {
		t.Run(a.says+" "+a.when, func(t *testing.T) {
			c, fails := a.make(t)
			err := fails()
			if err == nil || !shapeOf(a.says).MatchString(err.Error()) {
				t.Fatalf("the error is %v, want %q in it", err, a.says)
			}
			if a.by != nil {
				a.by(c)
			} else if c.follow(err.Error()) == 0 {
				t.Fatalf("nothing in it can be run: %v", err)
			}
			if after := fails(); after != nil {
				t.Errorf("the advice was %v\nand after it the error is %v", err, after)
			}
		})
	}
}

// shapeOf matches what a format prints.
func shapeOf(format string) *regexp.Regexp {
	anything := strings.NewReplacer(" %s ", " (?s:.*)", "%s", "(?s:.*)")
	return regexp.MustCompile(anything.Replace(regexp.QuoteMeta(format)))
}

var (
	ofPrinted = regexp.MustCompile("the (?:SQL|statement) that (`txwork [^`]+`(?: and `txwork [^`]+`)*) prints?")
	ofCommand = regexp.MustCompile("`(txwork [^`]+)`")
	ofFlag    = regexp.MustCompile(`\bpass (--[a-z-]+)(?: and (--[a-z-]+))?`)
	ofSQL     = regexp.MustCompile(`GRANT [^:;]+ TO [\w"]+|ALTER TABLE \S+ ENABLE TRIGGER \S+|` +
		`SELECT pg_terminate_backend\(\d+\)`)
)

// follow runs the commands and statements of a message, and then what these commands advise. It returns their number.
func (c *cli) follow(message string) (n int) {
	c.t.Helper()
	for _, found := range ofPrinted.FindAllString(message, -1) {
		for _, command := range ofCommand.FindAllStringSubmatch(found, -1) {
			c.runPrinted(command[1])
			n++
		}
	}
	rest := ofPrinted.ReplaceAllString(message, "")
	for _, command := range ofCommand.FindAllStringSubmatch(rest, -1) {
		n += 1 + c.follow(c.shell(command[1], 0))
	}
	for _, flags := range ofFlag.FindAllStringSubmatch(rest, -1) {
		c.passed = append(c.passed, slices.DeleteFunc(flags[1:], func(f string) bool { return f == "" })...)
		n++
	}
	for _, statement := range ofSQL.FindAllString(rest, -1) {
		c.exec(statement)
		n++
	}
	return n
}

// runPrinted runs the SQL that a command prints as its first lines say.
func (c *cli) runPrinted(command string) {
	c.t.Helper()
	self, err := os.Executable()
	must(c.t, err)
	printing := exec.CommandContext(c.t.Context(), "sh", "-ec", `txwork() { "$SELF" "$@"; }`+"\n"+command)
	printing.Env = append(os.Environ(), asCommand+"=1", "SELF="+self, databaseURLEnv+"="+c.url)
	text, err := printing.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || len(text) == 0 {
		c.t.Fatalf("%s: %v\n%s", command, err, text)
	}
	args := []string{"-q", "-v", "ON_ERROR_STOP=1", c.url}
	if strings.Contains(string(text), "Run it in one transaction") {
		args = append([]string{"--single-transaction"}, args...)
	}
	psql := exec.CommandContext(c.t.Context(), "psql", args...)
	psql.Stdin = bytes.NewReader(text)
	if out, err := psql.CombinedOutput(); err != nil {
		c.t.Fatalf("psql, with what %s prints: %v\n%s", command, err, out)
	}
}

// tells is a call of a command, with what it writes to standard error.
func (c *cli) tells(args ...string) call {
	return func() error {
		c.t.Helper()
		if r := c.run(slices.Concat(args, c.passed)...); r.stderr != "" {
			return errors.New(r.stderr)
		}
		return nil
	}
}

// situation makes a cli with a call of it.
func situation(open func(*testing.T) *cli, fails func(*cli) call) func(*testing.T) (*cli, call) {
	return func(t *testing.T) (*cli, call) {
		t.Helper()
		c := open(t)
		return c, fails(c)
	}
}

// without makes a schema in which a statement has done harm.
func without(harm string) func(*testing.T) *cli {
	return func(t *testing.T) *cli {
		t.Helper()
		c := newMigratedCLI(t)
		c.exec(harm)
		return c
	}
}

// having makes a schema with some of the domains.
func having(domains ...migrations.Domain) func(*testing.T) *cli {
	return func(t *testing.T) *cli {
		t.Helper()
		c := newCLI(t)
		must(t, c.migrates(migrations.Options{Domains: domains})())
		return c
	}
}

// renamed makes a schema that was renamed.
func renamed(t *testing.T) *cli {
	t.Helper()
	c := newCLI(t)
	former := c.db.Schema + "_was"
	text, err := migrations.SQL(migrations.FileOptions{Schema: former})
	must(t, err)
	c.exec(text)
	c.exec("DROP SCHEMA {schema}; ALTER SCHEMA " + former + " RENAME TO {schema}")
	return c
}

func (c *cli) checksVersion() call {
	return func() error { return c.outbox.Table().CheckVersion(c.t.Context(), c.db.Pool) }
}

// folds also returns the hint that psql prints.
func (c *cli) folds() call {
	return func() error {
		_, err := c.queue().Fold(c.t.Context())
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Hint != "" {
			return fmt.Errorf("%w HINT = '%s'", err, pg.Hint)
		}
		return err
	}
}

func (c *cli) claims() call {
	return func() error {
		_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
		return err
	}
}

func (c *cli) readsLeaders() call {
	return func() error { _, err := reaper.Leaders(c.t.Context(), c.db.Pool, c.db.Schema); return err }
}

func (c *cli) migrator(o migrations.Options) *migrations.Migrator {
	c.t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Schema == "" {
		o.Schema = c.db.Schema
	}
	m, err := migrations.New(c.db.Pool, o)
	must(c.t, err)
	return m
}

func (c *cli) migrates(o migrations.Options) call {
	m := c.migrator(o)
	return func() error { _, err := m.Up(c.t.Context()); return err }
}

func (c *cli) validates(o migrations.Options) call {
	m := c.migrator(o)
	return func() error { return m.Validate(c.t.Context()) }
}

// rolesMade keeps tests that make the roles of `txwork roles`, which belong to the whole server, apart.
var rolesMade sync.Mutex

// as returns the same cli for a new role with some rights, and removes the roles that the advice makes.
func (c *cli) as(rights ...string) *cli {
	c.t.Helper()
	rolesMade.Lock()
	role := c.weakRole()
	c.exec("CREATE ROLE " + role)
	for _, r := range rights {
		c.exec(strings.ReplaceAll(r, "{role}", role))
	}
	before := value[[]string](c, "SELECT coalesce(array_agg(rolname::text), '{}') FROM pg_roles")
	c.t.Cleanup(func() {
		defer rolesMade.Unlock()
		ctx := context.Background()
		for _, name := range []string{role, "txwork_operator", "txwork_viewer", "txwork_worker", "txwork_producer",
			"txwork_migrator", "txwork_owner"} {
			if contained := name != role && strings.Contains(strings.Join(before, " "), name); contained {
				continue // somebody else's
			}
			for _, statement := range []string{"REASSIGN OWNED BY %s TO CURRENT_USER", "DROP OWNED BY %s",
				"DROP ROLE %s"} {
				if _, err := c.db.Pool.Exec(ctx, strings.ReplaceAll(statement, "%s", name)); err != nil &&
					!strings.Contains(err.Error(), "does not exist") {
					c.t.Error(err)
				}
			}
		}
	})
	weak := *c
	weak.url = withParameter(c.url, "role="+role)
	pool, err := pgxpool.New(c.t.Context(), weak.url)
	must(c.t, err)
	c.t.Cleanup(pool.Close)
	db := *c.db
	db.Pool = pool
	weak.db = &db
	return &weak
}

func (c *cli) weakRole() string { return "r_" + strings.ToLower(c.db.Schema[2:12]) }

func withParameter(url, parameter string) string {
	if strings.Contains(url, "?") {
		return url + "&" + parameter
	}
	return url + "?" + parameter
}

// weak makes a cli of a role with some rights, whose calls fail, beside that of the owner, who follows the advice.
func weak(domains []migrations.Domain, fails func(*cli) call, rights ...string) func(*testing.T) (*cli, call) {
	return func(t *testing.T) (*cli, call) {
		t.Helper()
		c := having(domains...)(t)
		return c, fails(c.as(append(rights, "GRANT USAGE ON SCHEMA "+c.db.Schema+" TO {role}")...))
	}
}

func (c *cli) relays() call {
	return c.quiet("outbox", "relay", "--stdout", "--until-empty")
}

// quiet is tells for a command that also reports to standard error what it did.
func (c *cli) quiet(args ...string) call {
	return func() error {
		c.t.Helper()
		if r := c.run(args...); r.code != exitOK {
			return errors.New(r.stderr)
		}
		return nil
	}
}

// serves is a call of a service that ends when it has begun.
func (c *cli) serves() call {
	return func() error {
		c.t.Helper()
		relay, err := outbox.NewRelay(c.db.Pool, c.outbox, outbox.RelayOptions{})
		must(c.t, err)
		relay.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
		ctx, stop := context.WithCancel(c.t.Context())
		defer stop()
		logger := slog.New(slog.DiscardHandler)
		s, err := service.New(c.db.Pool, service.Options{Logger: logger, Reaper: reaper.Options{Logger: logger}}, relay)
		must(c.t, err)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for {
			select {
			case err := <-ended:
				return err
			case <-time.After(10 * time.Millisecond):
				if s.Ready() == nil {
					stop()
				}
			}
		}
	}
}

func (c *cli) dispatches() call {
	return func() error {
		c.t.Helper()
		all, err := alarms.Open(alarms.Options{Schema: c.db.Schema})
		must(c.t, err)
		waker, err := alarms.NewHTTPWaker(alarms.HTTPWakerOptions{URL: "https://example.org", Token: "secret"})
		must(c.t, err)
		d, err := alarms.NewDispatcher(c.db.Pool, all, waker, alarms.DispatcherOptions{})
		must(c.t, err)
		return d.Check(c.t.Context())
	}
}

// examines is a call of the doctor, with what it could not look at.
func (c *cli) examines(check string) call {
	return func() error {
		c.t.Helper()
		for _, s := range decode[printed](c.doctor("--json", "--fail-on", "never")).Skipped {
			if s["check"] == check {
				remedy, _ := s["remedy"].(string)
				return errors.New(remedy)
			}
		}
		return nil
	}
}

// secured makes a cli of a role that sees a part of the rows, although it has all rights.
func secured(fails func(*cli) call) func(*testing.T) (*cli, call) {
	return weak([]migrations.Domain{migrations.Outbox}, fails, "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
		"GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {role}", "ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY")
}

func (c *cli) seesAll() { c.exec("ALTER ROLE " + c.weakRole() + " BYPASSRLS") }

// unfit makes a cli whose sessions have a setting, and do what is advised about it.
func unfit(setting string) func(*testing.T) (*cli, call) {
	return func(t *testing.T) (*cli, call) {
		c := newMigratedCLI(t)
		c.url = withParameter(c.url, setting)
		return c, c.tells("stats")
	}
}

// own is a table that the migrations do not make.
var own = workqueue.Spec{Table: "parcels", Columns: []workqueue.Column{{Name: "depot", Type: "text"}},
	Topics: workqueue.Topics{Columns: []string{"depot"}}}

func (c *cli) ownTable() *workqueue.Table {
	c.t.Helper()
	spec := own
	spec.Schema = c.db.Schema
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	must(c.t, err)
	return table
}

func (c *cli) makesOwn() { c.createTable(own) }

// leaves is a call of a reaper that was not given a table, with its warning.
func (c *cli) leaves() call {
	c.expired()
	return func() error {
		c.t.Helper()
		o := reaper.Options{Schema: c.db.Schema, Interval: reaper.MinInterval}
		given := []*workqueue.Table{c.ownTable()}
		report, err := reaper.RunOnce(c.t.Context(), c.db.Pool, given, o)
		if err != nil || len(report.Unserved) == 0 {
			return err
		}
		var log output
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, stop := context.WithCancel(c.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- reaper.Run(ctx, c.db.Pool, given, o) }()
		pgtest.Await(pgtest.Patience, func() bool { return strings.Contains(log.String(), "unserved=") })
		stop()
		must(c.t, <-ended)
		return errors.New(log.String())
	}
}

// locked makes a schema in which a session has locked a table.
func locked(t *testing.T) *cli {
	t.Helper()
	c := newMigratedCLI(t)
	holder, err := pgx.Connect(t.Context(), c.url)
	must(t, err)
	t.Cleanup(func() { holder.Close(context.Background()) })
	_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE "+c.db.Schema+".outbox")
	must(t, err)
	return c
}

var advices = []advised{
	{says: "does not exist: %s, or name its schema in the options", make: situation(newCLI, (*cli).checksVersion)},
	{says: "does not exist: %s, or name its schema in the options", when: "in a schema with another domain",
		make: situation(having(migrations.Jobs), (*cli).checksVersion)},
	{says: "run your own migration, which migrations.DDL returns for the table's Spec", by: (*cli).makesOwn,
		make: situation(newCLI, func(c *cli) call {
			return func() error { return c.ownTable().CheckVersion(c.t.Context(), c.db.Pool) }
		})},
	{says: "run your own migration of schema", by: (*cli).makesOwn, make: situation(newCLI, func(c *cli) call {
		return func() error {
			_, err := c.ownTable().On(c.db.Pool).Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
			return err
		}
	})},
	{says: "run the SQL that %s prints, and the migrations of tables of your own again",
		make: situation(renamed, (*cli).checksVersion)},
	{says: "is disabled, %s: run ALTER TABLE %s.%s ENABLE TRIGGER %s",
		make: situation(without("ALTER TABLE {schema}.outbox DISABLE TRIGGER outbox_key_note"), (*cli).checksVersion)},
	{says: "run the statement that %s prints, or the one in the migration of your own table",
		make: situation(without("DROP TRIGGER outbox_key_note ON {schema}.outbox"), (*cli).checksVersion)},
	{says: "run %smigrate up%s, or name the schema that has the tables", make: situation(func(t *testing.T) *cli {
		c := newCLI(t)
		c.exec("DROP SCHEMA {schema}")
		return c
	}, (*cli).folds)},
	{says: "run %smigrate up --domain", when: "of a claim", make: situation(having(migrations.Jobs), (*cli).claims)},
	{says: "run %smigrate up --domain", when: "of a function",
		make: situation(without("DROP FUNCTION {schema}.outbox_key_fold"), (*cli).folds)},
	{says: "run %smigrate up --domain", when: "of the audit", make: situation(without("DROP TABLE {schema}.audit"),
		func(c *cli) call { return c.tells("outbox", "pause", "t") })},
	{says: ", then GRANT %s TO", when: "to an operator whom the audit does not know",
		make: weak([]migrations.Domain{migrations.Outbox}, func(c *cli) call { return c.tells("outbox", "pause", "t") },
			"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}; "+
				"REVOKE ALL ON {schema}.audit FROM {role}")},
	{says: "run %smigrate up --domain", when: "of leaders", make: situation(newCLI, (*cli).readsLeaders)},
	{says: "run %smigrate up --domain", when: "of a command", make: situation(having(migrations.Jobs),
		func(c *cli) call { return c.tells("timers", "list") })},
	{says: "has no txwork tables: run %s, or name another --schema",
		make: situation(newCLI, func(c *cli) call { return c.tells("stats") })},
	{says: "pending: run", make: situation(newCLI, func(c *cli) call { return c.tells("migrate", "status") })},
	{says: "pending: run", when: "to a program",
		make: situation(newCLI, func(c *cli) call { return c.validates(migrations.Options{}) })},
	{says: "pending: run", when: "to a program with one domain", make: situation(having(migrations.Jobs),
		func(c *cli) call {
			return c.validates(migrations.Options{Domains: []migrations.Domain{migrations.Outbox}})
		})},
	{says: "the schema is not as this version of txwork needs it: run the SQL that %s prints",
		make: situation(without("DROP INDEX {schema}.outbox_done_idx"),
			func(c *cli) call { return c.tells("migrate", "up") })},
	{says: "run the SQL that %s prints", when: "to a program that validates",
		make: situation(without("DROP INDEX {schema}.outbox_done_idx"),
			func(c *cli) call { return c.validates(migrations.Options{}) })},
	{says: "run the SQL that %s prints", when: "to who migrates a renamed schema",
		make: situation(renamed, func(c *cli) call { return c.migrates(migrations.Options{}) })},
	{says: "are to be made here; %s, or name that schema", make: situation(renamed, func(c *cli) call {
		return c.migrates(migrations.Options{Schema: c.db.Schema + "_was"})
	})},
	{says: "run the SQL that %s prints, which records what is there",
		make: situation(without("DROP TABLE {schema}.schema_version"),
			func(c *cli) call { return c.migrates(migrations.Options{}) })},
	{says: "run the SQL that %s prints, which records what is there", when: "to who takes them back",
		make: situation(without("DROP TABLE {schema}.schema_version, {schema}.schema_domain"),
			func(c *cli) call { return c.tells("migrate", "down", "--yes", "--to-version", "5") })},
	{says: "although their tables are there: run the SQL that %s prints",
		make: situation(without("DELETE FROM {schema}.schema_version"),
			func(c *cli) call { return c.tells("migrate", "status") })},
	{says: "is damaged: run the SQL that %s prints", make: situation(without("DROP TABLE {schema}.schema_domain"),
		func(c *cli) call { return c.tells("migrate", "up") })},
	{says: "which no migration recorded: use another schema, or remove it",
		by: func(c *cli) { c.exec("DROP TABLE {schema}.outbox") },
		make: situation(newCLI, func(c *cli) call {
			c.exec("CREATE TABLE {schema}.outbox ()")
			return c.migrates(migrations.Options{})
		})},
	{says: "run the SQL that %s prints", when: "to a relay",
		make: weak([]migrations.Domain{migrations.Outbox}, (*cli).relays, "GRANT SELECT ON {schema}.outbox TO {role}")},
	{says: "run the SQL that %s prints", when: "to a service",
		make: weak([]migrations.Domain{migrations.Outbox}, (*cli).serves)},
	{says: ", then GRANT %s TO", when: "to a dispatcher",
		make: weak([]migrations.Domain{migrations.Alarms}, (*cli).dispatches)},
	{says: ", then GRANT %s TO", when: "to the doctor, in a schema with tables of its own",
		make: func(t *testing.T) (*cli, call) {
			c := having(migrations.Jobs)(t)
			c.createTable(own)
			return c, c.as("GRANT USAGE ON SCHEMA {schema} TO {role}").examines("schema")
		}},
	{says: "GRANT pg_read_all_stats TO", make: func(t *testing.T) (*cli, call) {
		c := newMigratedCLI(t)
		busy, err := pgx.Connect(t.Context(), c.url)
		must(t, err)
		t.Cleanup(func() { busy.Close(context.Background()) })
		return c, c.as("GRANT USAGE ON SCHEMA {schema} TO {role}").examines("horizon-held")
	}},
	{says: "run the SQL that %s prints: it makes what is missing",
		make: situation(without("DROP FUNCTION {schema}.outbox_key_look; DROP TABLE {schema}.outbox_key_note"),
			func(c *cli) call { return c.examines("fold-behind") })},
	{says: "wait for its transaction to end, or end it:",
		make: situation(locked, func(c *cli) call { return c.examines("expired-leases") })},
	{says: "the role lacks a privilege: connect as the tables' owner, or grant it a role of txwork roles",
		by: func(c *cli) { c.exec("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO " + c.weakRole()) },
		make: weak([]migrations.Domain{migrations.Outbox},
			func(c *cli) call { return c.tells("list", "outbox", "--status", "ready") })},
	{says: "Leave this to a role that sees all rows", by: (*cli).seesAll, make: secured((*cli).folds)},
	{says: "run this as the owner of the tables or as a role with BYPASSRLS", by: (*cli).seesAll,
		make: secured(func(c *cli) call { return c.tells("reap") })},
	{says: "set session_replication_role to origin", make: unfit("session_replication_role=replica"),
		by: func(c *cli) { c.url = strings.Replace(c.url, "=replica", "=origin", 1) }},
	{says: "take pg_catalog out of its search_path, or name it first",
		make: unfit("search_path=public,pg_catalog"),
		by:   func(c *cli) { c.url = strings.Replace(c.url, "public,pg_catalog", "pg_catalog,public", 1) }},
	{says: "or run the commands from cron", make: func(t *testing.T) (*cli, call) {
		c := newMigratedCLI(t)
		c.makesOwn()
		return c, c.leaves()
	}},
	{says: "nobody answered: pass --yes, or --dry-run to count only", make: situation(newMigratedCLI,
		func(c *cli) call {
			c.fail("no", c.enqueue(outbox.Message{Topic: "t", Payload: []byte("{}")})...)
			return c.tells("redrive", "outbox", "--all-failed")
		})},
	{says: "--json cannot ask: pass --yes", make: situation(newMigratedCLI,
		func(c *cli) call { return c.tells("redrive", "outbox", "--all-failed", "--json") })},
	{says: "--json cannot ask: pass --yes", when: "to who fixes", make: situation(newMigratedCLI,
		func(c *cli) call {
			return func() error { // what it finds in the server of all tests does not matter
				if r := c.doctor(append(c.passed, "--fix", "--json")...); r.code == exitUsage {
					return errors.New(r.stderr)
				}
				return nil
			}
		})},
	{says: "drop its tables, which hold no rows: pass --yes to do so", make: situation(newMigratedCLI,
		func(c *cli) call { return c.tells("migrate", "down") })},
	{says: "pass --yes and --drop-rows to do so", make: situation(newMigratedCLI, func(c *cli) call {
		c.greet(jobs.Insert{})
		return c.tells("migrate", "down")
	})},
}
