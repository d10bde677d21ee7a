package txworktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Advance moves the clock of the domains' tables forward by d, at most a century. It does so by moving every time in
// them back by d, so that to the database it is as if d had passed. It works in a transaction and on a pool. Workers
// that listen look for due rows at once.
//
// Advance moves these times, in live rows and in rows that have ended: due_at, locked_until, created_at, completed_at,
// failed_at and cancelled_at; deadlines of joins; the starts that count against the rate of a queue; the rests of
// topics whose destination is unavailable; and the new time of a timer that was set again while it fires. Rows that
// were due in less than d are therefore due now, leases that would have expired have expired, retention and
// deduplication windows have passed, and rows are older.
//
// It does not move what people see: payloads, headers, columns of tables of your own, nominal times (ScheduledAt of a
// timer, Nominal of a schedule's job), and the alarms' own table, although the timers of alarms move. Everything that
// is due after the year 9000 stays where it is.
//
// Schedules are a domain of their own (timers.Timers.Schedules, jobs.Client.Schedules). Advance moves the clock of
// those that exist, so that they fire as the rule says: three calls with 24 hours, each followed by a [Drain], run a
// nightly schedule three times, with the nominal times of the next three nights. What is due while Advance skips the
// time is late, as if no worker had been running, and the schedule's misfire policy applies: by default, one call with
// 72 hours makes a nightly schedule fire once. A change of a schedule, its Resume, Trigger and Backfill use its clock,
// too. A schedule that is created later begins at now().
//
// The clock of the database, now(), does not move, and neither does that of the process.
func Advance(t testing.TB, q Querier, d time.Duration, domain Domain, more ...Domain) {
	t.Helper()
	for _, one := range append([]Domain{domain}, more...) {
		spec := one.Table().Spec()
		refuseForgotten(t, q, spec.Schema, spec.Table)
		advance(t, q, d, spec.Schema, spec.Table)
	}
}

// Advance is the package's [Advance] for all of txwork's tables in the schema.
func (db *DB) Advance(t testing.TB, q Querier, d time.Duration) {
	t.Helper()
	advance(t, q, d, db.Schema, "")
}

// maxAdvance keeps every time within the range of PostgreSQL.
const maxAdvance = 100 * 366 * 24 * time.Hour

// advance moves the times of one core table, or of all in the schema, and of the tables that belong to them.
func advance(t testing.TB, q Querier, d time.Duration, schema, table string) {
	t.Helper()
	if d < 0 || d > maxAdvance {
		t.Fatalf("txworktest: advance by %v: it must be between 0 and %v", d, maxAdvance)
	}
	all := clocksOf(query(t, q, selectTimes, schema))
	moved := 0
	for _, c := range all {
		if table != "" && c.table != table && c.owner != table {
			continue
		}
		moved++
		if err := c.move(t.Context(), q, schema, d); err != nil {
			t.Fatalf("txworktest: advance %s.%s: %v", schema, c.table, err)
		}
	}
	if moved == 0 {
		t.Fatalf("txworktest: advance: schema %s has no table %s of txwork's", schema, table)
	}
}

// selectTimes lists the tables of a schema with their timestamptz columns and the times of starts, and whether each is
// a core table.
const selectTimes = `SELECT concat_ws(' ', coalesce(obj_description(c.oid, 'pg_class'), '') LIKE 'txwork core %', c.relname,
		string_agg(a.attname, ' ' ORDER BY a.attnum))
	FROM pg_class AS c
	JOIN pg_namespace AS n ON n.oid = c.relnamespace
	JOIN pg_attribute AS a ON a.attrelid = c.oid
	JOIN pg_type AS y ON y.oid = a.atttypid
	WHERE n.nspname = $1::text AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
		AND (coalesce(nullif(y.typbasetype, 0), y.oid) = 'timestamptz'::regtype
			OR c.relname LIKE '%\_start' AND a.attname = 'at')
	GROUP BY c.oid, c.relname
	ORDER BY c.relname`

// clock names the columns that move in one table.
type clock struct {
	table  string
	owner  string // the core table that it belongs to; empty for a core table
	live   []string
	ended  []string // only for core tables
	plan   bool     // a table of schedules
	starts bool     // a table of starts
}

// Columns that move: those of core tables, in live rows and in rows that have ended, and those of timers.
var (
	liveTimes     = []string{"created_at", "due_at", "locked_until", "cancelled_at"}
	endedTimes    = []string{"created_at", "due_at", "completed_at", "failed_at", "cancelled_at"}
	timerTimes    = []string{"rearm_at"}
	scheduleTimes = []string{"next_at", "last_at", "buffered_at", "anchor"} // they stay, and the schedule's clock moves
	restTimes     = []string{"unavailable_since", "rests_until"}            // of a topic; when it was paused stays
)

// belongings are the suffixes of the tables that a domain has in addition to its core table. All their times move, but
// of topics only those of their rests.
var belongings = []string{"_join", "_join_note", "_key_note", "_key_state", "_queue", "_start", "_slot", "_attempt",
	"_step", "_topic"}

func clocksOf(lines []string) []clock {
	columns := map[string][]string{}
	var core, others []string
	for _, line := range lines {
		f := strings.Fields(line)
		columns[f[1]] = f[2:]
		if f[0] == "t" {
			core = append(core, f[1])
		} else {
			others = append(others, f[1])
		}
	}
	var clocks []clock
	for _, table := range core {
		c := clock{table: table, live: liveTimes, ended: endedTimes, plan: hasAll(columns[table], scheduleTimes)}
		if hasAll(columns[table], timerTimes) {
			c.live, c.ended = slices.Concat(liveTimes, timerTimes), slices.Concat(endedTimes, timerTimes)
		}
		if c.plan { // the time of a resume is by the database's clock
			c.live = append(slices.Clone(liveTimes), "resumed_at")
		}
		clocks = append(clocks, c)
		for _, suffix := range belongings {
			if slices.Contains(others, table+suffix) {
				times := columns[table+suffix]
				if suffix == "_topic" {
					times = restTimes
				}
				clocks = append(clocks, clock{table: table + suffix, owner: table, live: times,
					starts: suffix == "_start"})
			}
		}
	}
	return clocks
}

// hasAll reports whether a table has all of the columns. In a table of the application a single one of these names may
// mean something else.
func hasAll(columns, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(columns, name) })
}

// move moves the times of one table, and then wakes listening workers. It leaves completed_at of live rows alone,
// because triggers watch it.
func (c clock) move(ctx context.Context, q Querier, schema string, d time.Duration) error {
	statements := []string{c.update(schema, c.live, "true")}
	if c.owner == "" {
		statements = []string{
			c.update(schema, c.live, "completed_at IS NULL"),
			c.update(schema, c.ended, "completed_at IS NOT NULL"),
		}
	}
	if c.plan {
		statements = append(statements, c.ahead(schema))
	}
	if c.starts {
		statements = []string{c.startsBack(schema)}
	}
	for _, text := range statements {
		if err := exec(ctx, q, text, fmt.Sprintf("%d microseconds", d.Microseconds())); err != nil {
			return err
		}
	}
	if c.owner != "" {
		return nil
	}
	_, err := tryQuery(ctx, q, `SELECT concat(pg_notify($1::text, (extract(epoch FROM now()) * 1000000)::bigint::text),
	pg_notify($1::text, 'note:0'))`, schema+"."+c.table)
	return err
}

// ahead advances the clocks of schedules, see package periodic.
func (c clock) ahead(schema string) string {
	return fmt.Sprintf(`UPDATE %q.%q SET headers = coalesce(headers, '{}') || jsonb_build_object('txwork-ahead',
		(coalesce((headers ->> 'txwork-ahead')::bigint, 0) + extract(epoch FROM $1::text::interval) * 1000000)::bigint::text)`,
		schema, c.table)
}

// startsBack moves the starts of queues, which are microseconds since 1970. The rows are written anew, in order, since
// an update could meet the place of one that has not moved yet.
func (c clock) startsBack(schema string) string {
	return fmt.Sprintf(`WITH moved AS (DELETE FROM %[1]q.%[2]q RETURNING *)
		INSERT INTO %[1]q.%[2]q (queue, at, job_id, owner_token)
		SELECT queue, at - (extract(epoch FROM $1::text::interval) * 1000000)::bigint, job_id, owner_token FROM moved
		ORDER BY at`, schema, c.table)
}

func (c clock) update(schema string, columns []string, where string) string {
	set := make([]string, len(columns))
	for i, name := range columns {
		set[i] = fmt.Sprintf("%[1]q = CASE WHEN %[1]q < '9000-01-01' THEN %[1]q - $1::text::interval ELSE %[1]q END",
			name)
	}
	return fmt.Sprintf("UPDATE %q.%q SET %s WHERE %s", schema, c.table, strings.Join(set, ", "), where)
}
