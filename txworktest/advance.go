package txworktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Advance moves the clock of the domains' tables forward by d, at most a century: every time in them is moved
// back by d, so that to the database it is as if d had passed. It works in a transaction as well as through a
// pool; workers that listen look at once.
//
// What moves, in rows that have ended as well as in live ones: due_at, locked_until, created_at, completed_at,
// failed_at and cancelled_at; deadlines of joins; the refill of rate limits; of a timer that was set again while it
// fires, the time of that; and of schedules, which are a domain of their own (timers.Timers.Schedules), the times of
// the next and the last occurrence. So what was due in less than d is due now, leases that would have ended have,
// retention and deduplication windows have run, and rows are older.
//
// What stays is what people see: payloads, headers, columns of tables of your own, a timer's nominal time ScheduledAt,
// and the alarms' own table, whose timers move. A schedule's nominal times move, since they are also when it is due:
// its next occurrence has one that is d earlier than the rule says. Advance by multiples of its period where that
// matters. Paused schedules, and whatever else is due after the year 9000, stay where they are.
//
// The clock of the database, now(), does not move, and neither does that of the process.
func Advance(t testing.TB, q Querier, d time.Duration, domain Domain, more ...Domain) {
	t.Helper()
	for _, one := range append([]Domain{domain}, more...) {
		spec := one.Table().Spec()
		advance(t, q, d, spec.Schema, spec.Table)
	}
}

// Advance is the package's [Advance] for all of txwork's tables in the schema.
func (db *DB) Advance(t testing.TB, q Querier, d time.Duration) {
	t.Helper()
	advance(t, q, d, db.Schema, "")
}

// maxAdvance keeps every time within what PostgreSQL can hold.
const maxAdvance = 100 * 366 * 24 * time.Hour

// advance moves one table, or all of the schema's, with those that belong to them.
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

// selectTimes lists the tables of a schema with their columns of times, and whether they are the core's.
const selectTimes = `SELECT concat_ws(' ', coalesce(obj_description(c.oid, 'pg_class'), '') LIKE 'txwork core %', c.relname,
		string_agg(a.attname, ' ' ORDER BY a.attnum))
	FROM pg_class AS c
	JOIN pg_namespace AS n ON n.oid = c.relnamespace
	JOIN pg_attribute AS a ON a.attrelid = c.oid
	WHERE n.nspname = $1::text AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'timestamptz'::regtype
	GROUP BY c.oid, c.relname
	ORDER BY c.relname`

// clock is what moves in one table.
type clock struct {
	table string
	owner string // the core's table that it belongs to; empty: it is one itself
	live  []string
	ended []string // empty for what belongs to another
}

// Columns of the core's tables that move, by the rows in which they are set; and the domains' own.
var (
	liveTimes     = []string{"created_at", "due_at", "locked_until", "cancelled_at"}
	endedTimes    = []string{"created_at", "due_at", "completed_at", "failed_at", "cancelled_at"}
	timerTimes    = []string{"rearm_at"}
	scheduleTimes = []string{"next_at", "last_at", "buffered_at"}
)

// belongings are the tables that a domain has beside the core's, by what is appended to the name. All their times move.
var belongings = []string{"_join", "_join_note", "_key_note", "_key_state", "_queue", "_bucket", "_slot", "_attempt",
	"_step"}

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
		own := ownTimes(columns[table])
		clocks = append(clocks, clock{table: table, live: slices.Concat(liveTimes, own),
			ended: slices.Concat(endedTimes, own)})
		for _, suffix := range belongings {
			if slices.Contains(others, table+suffix) {
				clocks = append(clocks, clock{table: table + suffix, owner: table, live: columns[table+suffix]})
			}
		}
	}
	return clocks
}

// ownTimes are the domain's own columns: none of them means the same in a table of an application's.
func ownTimes(columns []string) []string {
	for _, own := range [][]string{timerTimes, scheduleTimes} {
		if !slices.ContainsFunc(own, func(name string) bool { return !slices.Contains(columns, name) }) {
			return own
		}
	}
	return nil
}

// move leaves completed_at of live rows alone: triggers watch it.
func (c clock) move(ctx context.Context, q Querier, schema string, d time.Duration) error {
	statements := []string{c.update(schema, c.live, "true")}
	if c.owner == "" {
		statements = []string{
			c.update(schema, c.live, "completed_at IS NULL"),
			c.update(schema, c.ended, "completed_at IS NOT NULL"),
		}
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

func (c clock) update(schema string, columns []string, where string) string {
	set := make([]string, len(columns))
	for i, name := range columns {
		set[i] = fmt.Sprintf("%[1]q = CASE WHEN %[1]q < '9000-01-01' THEN %[1]q - $1::text::interval ELSE %[1]q END",
			name)
	}
	return fmt.Sprintf("UPDATE %q.%q SET %s WHERE %s", schema, c.table, strings.Join(set, ", "), where)
}
