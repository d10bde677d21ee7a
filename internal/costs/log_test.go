package costs_test

import (
	"encoding/json"
	"testing"

	"github.com/txwork/txwork/outbox"
)

// A keptLog is a log with many dedup keys and scheduled messages.
type keptLog struct{ *lab }

func newKeptLog(t *testing.T) keptLog {
	t.Helper()
	l := keptLog{newLab(t)}
	up, _, err := outbox.LogDDL("public")
	l.ok(err)
	l.exec(up)
	l.exec("CALL outbox_log_tick()")
	l.exec("SELECT outbox_log_subscribe('s')")
	return l
}

// fill adds dedup keys of messages that were written, messages that are due later, and ones that are due.
func (l keptLog) fill(keys, later, due int) {
	l.Helper()
	l.exec(`INSERT INTO outbox_log_dedup (id, topic, dedup_key, xid)
		SELECT gen_random_uuid(), 't', 'key ' || i, 1 FROM generate_series(1, $1::int) AS i`, keys)
	l.exec(`INSERT INTO outbox_log_later (id, due_at, scheduled_at, ordered, topic, key, payload)
		SELECT gen_random_uuid(), at, at, true, 't', 'k' || i % 100, ''
		FROM generate_series(1, $1::int + $2::int) AS i, LATERAL (
			SELECT now() + CASE WHEN i <= $1 THEN interval '1 day' ELSE -interval '1 hour' END + i * interval '1 ms') AS a (at)`,
		later, due)
	l.exec("VACUUM ANALYZE")
}

// pages executes a statement and returns how many pages it has read, those of the functions that it calls included.
func (l keptLog) pages(statement string) int {
	l.Helper()
	var text string
	l.ok(l.db.QueryRow(l.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement).Scan(&text))
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	l.ok(json.Unmarshal([]byte(text), &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// logStatements are those that look for dedup keys and scheduled messages.
var logStatements = map[string]string{
	"a new dedup key":     "SELECT * FROM outbox_log_append('t', '', dedup_key => gen_random_uuid()::text)",
	"a taken dedup key":   "SELECT * FROM outbox_log_append('t', '', dedup_key => 'key 7')",
	"scheduling":          "SELECT * FROM outbox_log_append('t', '', 'k1', scheduled_at => now() + interval '1 hour')",
	"what is due":         "SELECT outbox_log_append_due(100)",
	"a cancel of nothing": "SELECT outbox_log_cancel(ARRAY[gen_random_uuid()])",
}

// What a log reads for dedup keys and scheduled messages does not grow with their number, nor with the generic plans
// that sessions come to use.
func TestKeysAndScheduledMessagesAreFoundByIndexes(t *testing.T) {
	few, many := newKeptLog(t), newKeptLog(t)
	few.fill(1000, 1000, 5000)
	many.fill(100_000, 50_000, 50_000)
	for name, statement := range logStatements {
		for range 8 { // as many as a session plans anew
			few.pages(statement)
			many.pages(statement)
		}
		small, large := few.pages(statement), many.pages(statement)
		t.Logf("%s: %d pages, and %d with many", name, small, large)
		if limit := 2*small + 20; large > limit {
			t.Errorf("%s reads %d pages, want at most %d", name, large, limit)
		}
	}
}

// While a snapshot is held, messages that went to the log stay in the index of what is due. An append steps over them,
// a page for more than a dozen of them.
func TestDueMessagesUnderAHeldSnapshot(t *testing.T) {
	l := newKeptLog(t)
	l.fill(0, 0, 40_000)
	defer l.holdSnapshot()()
	var first, last int
	for i := range 300 {
		last = l.pages("SELECT outbox_log_append_due(100)")
		if i == 5 {
			first = last
		}
	}
	t.Logf("an append of 100 reads %d pages, and %d behind 30000", first, last)
	if limit := first + 30_000/15; last > limit {
		t.Errorf("an append reads %d pages behind 30000 that were appended, want at most %d", last, limit)
	}
}
