package log_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// ticks are all ticks that the log has stored, and how many messages each has seen that the one before had not.
func (f *fixture) ticks() (parts []int) {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s AS m
			WHERE m.xid < (t.seen).high AND m.xid <> ALL ((t.seen).open)
			  AND NOT (m.xid < (t.before).high AND m.xid <> ALL ((t.before).open)))
		FROM (SELECT n, seen, lag(seen) OVER (ORDER BY n) AS before FROM %[1]s_tick) AS t
		WHERE t.before IS NOT NULL ORDER BY n`, f.name))
	f.ok(err)
	parts, err = pgx.CollectRows(rows, pgx.RowTo[int])
	f.ok(err)
	return parts
}

// bulk appends many messages in one statement, whose payloads are the name and a number.
func (f *fixture) bulk(q querier, name string, n int) (payloads []string) {
	f.Helper()
	f.exec(q, "INSERT INTO "+f.name+" (topic, payload) SELECT 'topic', convert_to($1 || ' ' || i, 'UTF8') "+
		"FROM generate_series(1, $2::int) AS i", name, n)
	return numbered(name+" ", 1, n)
}

// What was written while nobody ticked is divided into batches by the next tick: a page reads the rest of its batch.
func TestATickAfterALongTimeDividesWhatHasCome(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	var want []string
	for i := range 20 {
		want = append(want, f.bulk(f.Pool, fmt.Sprint("tx ", i), 1000)...)
	}
	f.tick()
	if parts := f.ticks(); len(parts) != 4 || slices.Max(parts) > 6000 {
		t.Errorf("the ticks see %d messages each, want about 5,000", parts)
	}
	f.want("s", f.drain("s", 1000), want...)
}

// A transaction with more messages than a batch is alone in a batch, and listed as open by the tick before.
func TestALargeTransactionIsABatchOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	want := f.bulk(f.Pool, "before", 10)
	want = append(want, f.bulk(f.Pool, "large", 12_000)...)
	want = append(want, f.bulk(f.Pool, "behind", 10)...)
	f.tick()
	if parts := f.ticks(); !slices.Equal(parts, []int{10, 12_000, 10}) {
		t.Errorf("the ticks see %d messages each", parts)
	}
	if late := value[bool](f, f.Pool, "SELECT bool_or((t.seen).open @> (SELECT array_agg(xid) FROM (SELECT xid FROM "+
		f.name+" GROUP BY xid HAVING count(*) > 5000) AS m)) FROM "+f.name+"_tick AS t"); !late {
		t.Error("no tick lists the large transaction as open")
	}
	f.want("s", f.drain("s", 5000), want...)

	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('first', start => '-infinity')")
	f.want("first", f.drain("first", 5000), want...)
}

// Transactions overlap, some were open at the last tick and some still are. Whoever wrote a key waited for those who
// had written it before: a divided tick keeps their order, and nothing is lost, or comes twice.
func TestADividedTickKeepsTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	random := rand.New(rand.NewPCG(1, rand.Uint64()))
	var open []pgx.Tx
	begin := func() pgx.Tx {
		tx, err := f.Pool.Begin(f.Context())
		f.ok(err)
		f.Cleanup(func() { _ = tx.Rollback(t.Context()) })
		f.exec(tx, "SELECT pg_current_xact_id()")
		return tx
	}
	long := begin() // open at the tick, and behind
	f.bulk(long, "long", 10)
	late := begin() // open at the tick before only
	f.bulk(late, "late", 10)
	undone := begin()
	f.bulk(undone, "undone", 3000)
	f.append(f.Pool, "news")
	f.tick()

	keys := map[string]pgx.Tx{} // who has written it, and is open
	order := map[string][]string{}
	count := 0
	write := func(tx pgx.Tx) {
		key := fmt.Sprint("key ", random.IntN(30))
		if by := keys[key]; by != nil && by != tx {
			return // it would wait
		}
		keys[key] = tx
		count++
		payload := fmt.Sprint(key, " no ", count)
		f.appendKey(tx, key, payload)
		order[key] = append(order[key], payload)
		f.bulk(tx, fmt.Sprint("filler ", count), 1+random.IntN(800))
	}
	commit := func(tx pgx.Tx) {
		f.ok(tx.Commit(f.Context()))
		for key, by := range keys {
			if by == tx {
				delete(keys, key)
			}
		}
	}
	for range 150 {
		switch n := random.IntN(10); {
		case n < 3 && len(open) < 4:
			open = append(open, begin())
		case n < 5 && len(open) > 0:
			at := random.IntN(len(open))
			commit(open[at])
			open = slices.Delete(open, at, at+1)
		case len(open) > 0:
			write(open[random.IntN(len(open))])
		}
	}
	for _, tx := range open {
		commit(tx)
	}
	f.bulk(late, "late again", 6000)
	f.ok(late.Commit(f.Context()))
	f.ok(undone.Rollback(f.Context()))
	f.tick()
	if parts := f.ticks(); len(parts) < 4 {
		t.Errorf("the ticks see %d messages each", parts)
	}

	got := f.drain("s", 2000)
	f.ok(long.Commit(f.Context()))
	got = append(got, f.drain("s", 2000)...)
	total := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name)
	unique := map[string]bool{}
	handled := map[string][]string{}
	for _, p := range got {
		unique[p] = true
		var key, no int
		if _, err := fmt.Sscanf(p, "key %d no %d", &key, &no); err == nil {
			name := fmt.Sprint("key ", key)
			handled[name] = append(handled[name], p)
		}
	}
	if len(got) != total || len(unique) != total {
		t.Errorf("%d messages were handled, %d of them different, of %d", len(got), len(unique), total)
	}
	for key, want := range order {
		if !slices.Equal(handled[key], want) {
			t.Errorf("%s was handled as %q, want %q", key, handled[key], want)
		}
	}
}
