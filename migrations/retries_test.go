package migrations_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A retried is a table whose rows are retried by default for a time that fits what its handlers call.
type retried struct {
	insert   string // the columns and values of a row
	lane     string // further arguments of its claim
	attempts int
	least    time.Duration
}

const (
	hour = time.Hour
	day  = 24 * hour
)

var retriedTables = map[string]retried{
	"outbox": {"(topic, payload) VALUES ('t', '')", "", outbox.DefaultMaxAttempts, day},
	"inbox": {"(consumer, source, message_id, topic, payload) VALUES ('c', 's', '1', 't', '')", ", 'c'",
		inbox.DefaultMaxAttempts, day},
	"timers": {"(key, topic, payload, fire_at, generation) VALUES ('k', 't', '', now(), 1)", "",
		workqueue.DefaultMaxAttempts, hour},
	"jobs": {"(kind, queue, priority, args) VALUES ('k', 'default', 2, '{}')", "",
		jobs.DefaultMaxAttempts, 4 * hour},
}

// A retriedRow is one row of such a table, which is claimed and settled by the SQL functions.
type retriedRow struct {
	*testing.T
	*pgtest.DB
	retried
	table string
	id    uuid.UUID
}

func newRetriedRow(t *testing.T, table string, c retried) *retriedRow {
	t.Helper()
	db := pgtest.New(t)
	if _, err := newMigrator(t, db.Pool, db.Schema).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &retriedRow{t, db, c, table, value[uuid.UUID](t, db.Pool, "INSERT INTO "+table+" "+c.insert+" RETURNING id")}
}

// claim claims the row, whenever it is due.
func (r *retriedRow) claim() (token uuid.UUID) {
	r.Helper()
	token = workqueue.NewOwnerToken()
	exec(r.T, r.Pool, "UPDATE "+r.table+" SET due_at = now()")
	fetch := fmt.Sprintf("SELECT id FROM %s_fetch($1, '30 s', 1%s) WHERE entry = 'row'", r.table, r.lane)
	if got := value[uuid.UUID](r.T, r.Pool, fetch, token); got != r.id {
		r.Fatalf("claimed %s, want %s", got, r.id)
	}
	return token
}

func (r *retriedRow) holds(condition string) bool {
	r.Helper()
	return value[bool](r.T, r.Pool, "SELECT "+condition+" FROM "+r.table)
}

// What the handlers of a domain call may be down for as long as Retry.Span says of its defaults, and the SQL functions
// of the migrations wait as long.
func TestDefaultRetriesOutlastWhatTheyCall(t *testing.T) {
	t.Parallel()
	for table, c := range retriedTables {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			least, most := workqueue.DefaultRetry.Span(c.attempts)
			if least < c.least {
				t.Errorf("a row is retried for %v at least, want %v", least, c.least)
			}
			r := newRetriedRow(t, table, c)
			waited, attempts := time.Duration(0), 0
			for failed := false; !failed; attempts++ {
				exec(t, r.Pool, "SELECT "+table+"_retry($1, ARRAY[$2::uuid])", r.claim(), r.id)
				if failed = r.holds("status = 3"); !failed {
					waited += value[time.Duration](t, r.Pool, "SELECT due_at - now() FROM "+table)
				}
			}
			// The pauses are read a little later than they begin.
			if late := time.Minute; attempts != c.attempts || waited < least-late || waited > most {
				t.Errorf("%d attempts within %v, want %d within %v to %v", attempts, waited, c.attempts, least, most)
			}
		})
	}
}

// A row that ends its process does not use up attempts that are meant for an outage, unless somebody has chosen them.
func TestLostLeasesEndARowBeforeItsAttemptsDo(t *testing.T) {
	t.Parallel()
	for table, c := range retriedTables {
		for name, most := range map[string]struct{ set, ends int }{
			"default": {0, min(workqueue.DefaultMaxLost, c.attempts)},
			"fewer":   {4, 4},
			"chosen":  {12, 12},
		} {
			if table == "timers" && name == "default" {
				most.ends = c.attempts // they last an hour, so few processes are lost
			}
			t.Run(table+", "+name, func(t *testing.T) {
				t.Parallel()
				r := newRetriedRow(t, table, c)
				if most.set > 0 {
					exec(t, r.Pool, "UPDATE "+table+" SET max_attempts = $1", most.set)
				}
				lost := 0
				for failed := false; !failed; lost++ {
					r.claim()
					exec(t, r.Pool, "UPDATE "+table+" SET locked_until = now() - interval '1 s'")
					exec(t, r.Pool, "SELECT "+table+"_reap_expired()")
					failed = r.holds("status = 3")
				}
				if lost != most.ends {
					t.Errorf("the row ended with lease %d that it lost, want %d", lost, most.ends)
				}
			})
		}
	}
}
