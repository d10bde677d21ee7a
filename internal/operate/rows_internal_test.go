package operate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Whichever indexes a filter reads, its rows are those that meet its conditions one by one: on all pages of a list, and
// in what is counted and changed.
func TestFiltersHaveTheRowsThatMeetThem(t *testing.T) {
	t.Parallel()
	const key = "CASE WHEN i % 7 < 3 THEN 'k' || i % 4 END"
	for name, of := range map[string]struct {
		spec    func(string) workqueue.Spec
		ddl     func(string) (string, string, error)
		columns map[string]string // of the domain, by name
		filters []Filter
	}{
		"outbox": {outbox.Spec, outbox.DDL,
			map[string]string{"topic": "'t' || i % 3", "payload": "''", "key": key,
				"concurrency_key": key, "key_limit": "CASE WHEN i % 7 < 3 THEN i % 7 END",
				"key_policy": "CASE WHEN i % 7 < 3 THEN i % 5 % 2 END", "key_seq": placed},
			[]Filter{{Topic: "t1"}, {Key: "k1"}}},
		"jobs": {jobs.Spec, jobs.DDL,
			map[string]string{"kind": "'a' || i % 2", "queue": "'q' || i % 3", "priority": "1 + i % 3", "args": "''",
				"unique_key":      "CASE WHEN i % 50 = 11 THEN 'k1' || repeat('x', i) WHEN i = 12 THEN 'k2' END",
				"concurrency_key": key, "key_limit": "CASE WHEN i % 7 < 3 THEN i % 7 END",
				"key_policy": "CASE WHEN i % 7 < 3 THEN i % 5 % 2 END", "key_seq": placed},
			[]Filter{{Kind: "a1"}, {Queue: "q2"}, {Key: "k1"}, {Key: "k2"}}},
		"inbox": {inbox.Spec, inbox.DDL,
			map[string]string{"consumer": "'c' || i % 2", "source": "'s' || i", "message_id": "'k' || i % 4",
				"topic": "CASE WHEN i % 3 > 0 THEN 't' || i % 3 END"},
			[]Filter{{Consumer: "c1"}, {Topic: "t1"}, {Key: "k1"}}},
		"timers": {timers.Spec, timers.DDL,
			map[string]string{"key": "'k' || i", "topic": "'t' || i % 3", "payload": "''", "fire_at": "now()",
				"generation": "1"},
			[]Filter{{Topic: "t1"}, {Key: "k17"}, {Key: "k18"}}},
		"a table with lanes": {invoices, invoicesDDL,
			map[string]string{"region": "'r' || i % 2", "priority": "i % 3",
				"topic": "CASE WHEN i % 3 > 0 THEN 't' || i % 3 END"},
			[]Filter{{Topic: "t1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, of.spec, of.ddl)
			f.everyState(of.columns)
			filters := append(of.filters, Filter{})
			for i, one := range filters {
				for _, other := range filters[i:] {
					for _, last := range []Filter{{}, {Error: "refused"}, {OlderThan: aged(10 * time.Hour)},
						{NewerThan: aged(20 * time.Hour)},
						{Error: "refused", OlderThan: aged(10 * time.Hour), NewerThan: aged(20 * time.Hour)}} {
						f.compare(merged(merged(one, other), last))
					}
				}
			}
		})
	}
}

// placed is the place of a row with a key. A row that waits for something else first has none yet.
const placed = "CASE WHEN i % 7 < 3 AND NOT (waiting AND i % 5 = 0) THEN i END"

// everyState writes rows in every state, with some of the same times.
func (f *fixture) everyState(columns map[string]string) {
	f.Helper()
	names := slices.Sorted(maps.Keys(columns))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = columns[name]
	}
	f.exec("ALTER TABLE {table} DISABLE TRIGGER USER")
	f.exec(fmt.Sprintf(`INSERT INTO {table} (status, waiting, attempts, due_at, created_at, locked_until, owner_token,
			completed_at, failed_at, cancelled_at, last_error, %s)
		SELECT status, waiting, least(status, 1), due_at, created_at,
			CASE WHEN status = 1 THEN due_at + interval '15 h' END, CASE WHEN status = 1 THEN gen_random_uuid() END,
			CASE WHEN status > 1 THEN at END, CASE WHEN status = 3 THEN at + interval '1 us' END,
			CASE WHEN status IN (1, 3) AND h %% 2 = 0 THEN at END,
			CASE h %% 3 WHEN 0 THEN 'connection refused' WHEN 1 THEN 'timeout' END, %s
		FROM generate_series(1, 1200) AS i,
			LATERAL (SELECT abs(hashint4(i)) AS h) AS a,
			LATERAL (SELECT h / 6 %% 4 AS status, h / 24 %% 40 AS hours) AS b,
			LATERAL (SELECT status = 0 AND h / 960 %% 2 = 0 AS waiting,
				now() - interval '30 min' - hours * interval '1 h' AS at,
				now() - interval '90 min' - (hours + h / 960 %% 5) * interval '1 h' AS created_at,
				now() - (interval '30 min' + hours * interval '1 h')
					* CASE WHEN status = 0 AND h %% 2 = 0 THEN -1 ELSE 1 END AS due_at) AS c`,
		strings.Join(names, ", "), strings.Join(values, ", ")))
	f.exec("ALTER TABLE {table} ENABLE TRIGGER USER")
}

// merged returns a filter that has the fields of both.
func merged(a, b Filter) Filter {
	for _, field := range []struct{ to, from *string }{{&a.Kind, &b.Kind}, {&a.Topic, &b.Topic}, {&a.Queue, &b.Queue},
		{&a.Consumer, &b.Consumer}, {&a.Key, &b.Key}, {&a.Error, &b.Error}} {
		if *field.to == "" {
			*field.to = *field.from
		}
	}
	if b.OlderThan.Given {
		a.OlderThan = b.OlderThan
	}
	if b.NewerThan.Given {
		a.NewerThan = b.NewerThan
	}
	return a
}

// compare lists and selects the rows of a filter.
func (f *fixture) compare(filter Filter) {
	f.Helper()
	for _, state := range slices.Sorted(maps.Keys(Listings)) {
		want := f.meeting(Listings[state], filter)
		got := []uuid.UUID{}
		for o := (ListOptions{State: state, Limit: 60, Filter: filter}); ; {
			page := f.list(o)
			for _, row := range page.Rows {
				got = append(got, row.ID)
			}
			if o.After = page.Next; o.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			f.Errorf("a list of %s by %+v has %d rows, want %d in their order", state, filter, len(got), len(want))
		}
	}
	now, err := f.Now(f.Context())
	f.ok(err)
	for name, listing := range map[string]Listing{"ready": Listings["ready"], "waiting": Listings["waiting"],
		"in progress": Listings["in_progress"], "dead letters": DeadLetters, "ended": Ended} {
		some := Selection{Filter: filter, Parts: []Listing{listing}}.At(now).Before(now.Add(-6 * time.Hour))
		want := f.meeting(some.Parts[0], filter)
		got := []uuid.UUID{}
		f.ok(f.Each(f.Context(), f.table, some, func(ids []uuid.UUID) (int, error) {
			got = append(got, ids...)
			return len(ids), nil
		}))
		if !slices.Equal(got, want) {
			f.Errorf("a selection of %s by %+v has %d rows, want %d in their order", name, filter, len(got), len(want))
		}
	}
}

// meeting returns the rows of a listing that meet each condition of a filter, in the order of the listing.
func (f *fixture) meeting(l Listing, filter Filter) []uuid.UUID {
	f.Helper()
	ids := []uuid.UUID{}
	f.ok(f.Read(f.Context(), func(tx pgx.Tx) error {
		layout, err := ReadLayout(f.Context(), tx, f.table.Spec())
		if err != nil {
			return err
		}
		conditions := []string{l.has()}
		equal := func(value string, columns ...string) {
			var either []string
			for _, c := range columns {
				if layout.Has(c) {
					either = append(either, fmt.Sprintf("coalesce(r.%s = '%s', false)", c, value))
				}
			}
			if value != "" {
				conditions = append(conditions, "("+strings.Join(either, " OR ")+")")
			}
		}
		equal(filter.Kind, "kind")
		equal(filter.Topic, "topic")
		equal(filter.Queue, "queue")
		equal(filter.Consumer, "consumer")
		equal(filter.Key, KeyColumns...)
		if filter.Error != "" {
			conditions = append(conditions, "r.last_error LIKE '%"+filter.Error+"%'")
		}
		const age = "extract(epoch FROM now() - coalesce(r.failed_at, r.completed_at, r.created_at))"
		if o := filter.OlderThan; o.Given {
			conditions = append(conditions, fmt.Sprintf("%s > %g", age, o.Seconds()))
		}
		if o := filter.NewerThan; o.Given {
			conditions = append(conditions, fmt.Sprintf("%s <= %g", age, o.Seconds()))
		}
		rows, err := tx.Query(f.Context(), fmt.Sprintf("SELECT r.id FROM %s AS r WHERE %s ORDER BY %s", f.table.Name(),
			strings.Join(conditions, " AND "), l.query(layout).ordering()))
		if err != nil {
			return err
		}
		ids, err = pgx.AppendRows(ids, rows, pgx.RowTo[uuid.UUID])
		return err
	}))
	return ids
}

// An order changes what was counted. Where rows do not say since when they are in their state, a limit stands for it,
// unless more were meant than could be counted. A limit of the operator stays.
func TestAnOrderIsLimitedToWhatWasCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state       string
		limit, rows int
		more        bool
		want        int
	}{
		{"ready", 0, 7, false, 7},
		{"ready", 0, 7, true, 0},
		{"ready", 100, 7, false, 7},
		{"ready", 100, 7, true, 100},
		{"failed", 0, 7, false, 0},
		{"failed", 100, 7, true, 100},
	} {
		o := Order{States: []string{c.state}, Limit: c.limit}
		if o.Found(c.rows, c.more); o.Limit != c.want || o.Counted != c.rows || o.AtLeast != c.more {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}
