package operate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

// ended writes n rows that ended, one a second until now: each fiftieth is a dead letter. Those of the topic rare are
// the oldest ten.
func (f *fixture) ended(n int) {
	f.Helper()
	f.exec("ALTER TABLE {table} DISABLE TRIGGER USER")
	f.exec(`INSERT INTO {table} (topic, payload, status, attempts, due_at, created_at, completed_at, failed_at)
		SELECT CASE WHEN i <= 10 THEN 'rare' ELSE 'noise' END, '', CASE WHEN i % 50 = 0 THEN 3 ELSE 2 END, 1, at, at, at,
			CASE WHEN i % 50 = 0 THEN at END
		FROM generate_series(1, $1::int) AS i, LATERAL (SELECT now() - ($1 - i) * interval '1 s' AS at) AS a`, n)
	f.exec("ALTER TABLE {table} ENABLE TRIGGER USER")
	f.exec("VACUUM ANALYZE {table}")
}

func aged(d time.Duration) Age { return Age{true, d} }

// Times are ranges of the index in whose order the rows are read.
func TestListsByTimeReadThatTimeAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outbox.Spec, outbox.DDL)
	n := pgtest.Size(30_000, 200_000)
	f.ended(n)
	oldest := time.Duration(n)*time.Second - 200*time.Second
	for _, test := range []struct {
		state  string
		filter Filter
		rows   int
	}{
		{"done", Filter{NewerThan: aged(time.Hour)}, 50},
		{"done", Filter{OlderThan: aged(oldest)}, 50},
		{"done", Filter{OlderThan: aged(oldest), NewerThan: aged(oldest + 20*time.Second)}, 20},
		{"failed", Filter{NewerThan: aged(500 * time.Second)}, 10},
		{"failed", Filter{OlderThan: aged(oldest)}, 4},
		{"cancelled", Filter{NewerThan: aged(time.Hour)}, 0},
	} {
		var page *Page
		pages := f.pages(func(context.Context) {
			page = f.list(ListOptions{State: test.state, Limit: 50, Filter: test.filter})
		})
		t.Logf("%s, %+v: %d rows, %d pages", test.state, test.filter, len(page.Rows), pages)
		// A second may pass between the rows and the list.
		if got := len(page.Rows); got < test.rows-5 || got > test.rows+5 || pages > 300 {
			t.Errorf("a list of %s has %d rows, want %d, and reads %d pages", test.state, got, test.rows, pages)
		}
	}
}

// A page ends after a bounded number of rows, and the next goes on there.
func TestASearchGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outbox.Spec, outbox.DDL)
	f.ended(pgtest.Size(5*ScanBatch, 200_000))
	var found, pages int
	o := ListOptions{State: "done", Limit: 50, Filter: Filter{Topic: "rare"}}
	for last, more := time.Now(), true; more; pages++ {
		var page *Page
		read := f.pages(func(context.Context) { page = f.list(o) })
		t.Logf("%d rows searched, %d found, %d pages", page.Searched, len(page.Rows), read)
		if read > 1500 {
			t.Errorf("a page reads %d pages", read)
		}
		if o.After, more = page.Next, page.Next != ""; more {
			if page.Searched != ScanBatch || page.SearchedTo == nil || !page.SearchedTo.Before(last) {
				t.Errorf("%d rows were searched, back to %v, the page before to %v", page.Searched, page.SearchedTo, last)
			} else {
				last = *page.SearchedTo
			}
		}
		found += len(page.Rows)
	}
	if found != 10 || pages < 2 {
		t.Errorf("%d pages have %d rows, want 10", pages, found)
	}
}

// The rows in progress, and those that were cancelled, are looked for among a bounded number of others.
func TestAListOfFewRowsIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, outbox.Spec, outbox.DDL)
	f.exec(`INSERT INTO {table} (topic, payload, due_at) SELECT 't', '', now() - interval '1 hour'
		FROM generate_series(1, $1)`, MaxSearched+100)
	f.exec(`INSERT INTO {table} (topic, payload, due_at, status, attempts, owner_token, locked_until)
		SELECT 't', '', now() - interval '1 minute', 1, 1, gen_random_uuid(), now() + '1 hour'::interval * (i - 2)
		FROM generate_series(1, 3) AS i`)
	f.exec(`INSERT INTO {table} (topic, payload, status, attempts, completed_at, failed_at, cancelled_at)
		SELECT 't', '', 3, 1, now(), now() - i * interval '1 second', CASE WHEN i > $1 THEN now() END
		FROM generate_series(1, $1 + 2) AS i`, ScanBatch+100)
	f.exec("VACUUM ANALYZE {table}")
	for state, want := range map[string]int{"in_progress": 3, "expired": 2, "cancelled": 2} {
		first := f.list(ListOptions{State: state, Limit: 50})
		if first.Searched != MaxSearched || len(first.Rows) > 0 || first.Next == "" {
			t.Errorf("the first page of %s has %d rows, and has searched %d", state, len(first.Rows), first.Searched)
			continue
		}
		next := f.list(ListOptions{State: state, Limit: 50, After: first.Next})
		if len(next.Rows) != want || next.Next != "" {
			t.Errorf("the next page of %s has %d rows, want %d", state, len(next.Rows), want)
		}
	}
}

// A key is found by the indexes of keys, if these have all rows in the state.
func TestAKeyIsFoundByItsIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, jobs.Spec, jobs.DDL)
	n := pgtest.Size(20_000, 200_000)
	insert := func(values string) {
		f.exec(`INSERT INTO {table} (kind, queue, priority, args, unique_key, concurrency_key, key_limit, key_policy)
			SELECT 'k', 'q', 2, '', ` + values)
	}
	f.exec("ALTER TABLE {table} DISABLE TRIGGER USER")
	insert(fmt.Sprintf(`E'u:k\x1f' || i, NULL, NULL, NULL FROM generate_series(1, %d) AS i`, n))
	f.exec("ALTER TABLE {table} ENABLE TRIGGER USER")
	insert("NULL, 'mine', 0, 0 FROM generate_series(1, 3)") // ordered
	insert("NULL, 'mine', 2, 0 FROM generate_series(1, 3)") // limited
	f.exec("VACUUM ANALYZE {table}")
	for key, want := range map[string]int{"mine": 6, "u:k\x1f7": 1} {
		for _, state := range []string{"ready", "waiting", "scheduled", "in_progress"} {
			var page *Page
			pages := f.pages(func(context.Context) {
				page = f.list(ListOptions{State: state, Limit: 50, Filter: Filter{Key: key}})
			})
			t.Logf("%q, %s: %d rows, %d pages", key, state, len(page.Rows), pages)
			if pages > 300 {
				t.Errorf("a list of %s by key %q reads %d pages", state, key, pages)
			}
			want -= len(page.Rows)
		}
		if want != 0 {
			t.Errorf("of the rows with the key %q %d are missing", key, want)
		}
	}
}
