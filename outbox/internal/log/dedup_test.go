package log_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
)

// An appended is what the function append returns.
type appended struct {
	id        uuid.UUID
	duplicate bool
}

func (f *fixture) appendOnce(q querier, topic, payload, dedupKey string) (a appended) {
	f.Helper()
	f.ok(q.QueryRow(f.Context(), "SELECT id, duplicate FROM "+f.name+"_append($1, $2, dedup_key => $3)", topic,
		[]byte(payload), dedupKey).Scan(&a.id, &a.duplicate))
	return a
}

// A dedup key of a topic is written once, also where two transactions write it at the same time: the second waits for
// the first, and writes if that is rolled back.
func TestADedupKeyIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprint(commits), func(t *testing.T) {
			t.Parallel()
			f := newLog(t)
			f.subscribe("s")
			tx := f.begin()
			first := f.appendOnce(tx, "t", "first", "k")
			if again := f.appendOnce(tx, "t", "again", "k"); !again.duplicate || again.id != first.id {
				t.Errorf("in one transaction: %v, want the duplicate of %v", again, first)
			}
			f.appendOnce(f.Pool, "u", "another topic", "k")
			f.appendOnce(f.Pool, "t", "another key", "l")
			for range 2 {
				f.appendOnce(f.Pool, "t", "no key", "")
			}
			second := make(chan appended, 1)
			go func() { second <- f.appendOnce(f.Pool, "t", "second", "k") }()
			for end := time.Now().Add(pgtest.Patience); !pgtest.SomebodyWaits(t, f.Pool, f.name+"_dedup"); {
				if time.Now().After(end) {
					t.Fatal("the second writer does not wait")
				}
			}
			want := []string{"another topic", "another key", "no key", "no key", "second"}
			if commits {
				f.ok(tx.Commit(f.Context()))
				want = append([]string{"first"}, want[:4]...)
			} else {
				f.ok(tx.Rollback(f.Context()))
			}
			if got := <-second; got.duplicate != commits || (got.id == first.id) != commits {
				t.Errorf("the second writer: %v, the first %v", got, first)
			}
			f.want("written", f.drain("s", 10), want...)
		})
	}
}

// The keys that are taken, in their order.
func (f *fixture) taken() []string {
	f.Helper()
	return value[[]string](f, f.Pool, "SELECT coalesce(array_agg(dedup_key ORDER BY dedup_key), '{}') FROM "+f.name+
		"_dedup")
}

// A key is taken until all have passed its message, whoever is slow and however the transaction was open, and until a
// tick of the retention's age has seen it.
func TestADedupKeyIsFreeWhenAllHavePassed(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("fast")
	f.subscribe("slow")
	open := f.begin()
	f.appendOnce(open, "t", "", "of an open transaction")
	f.appendOnce(f.Pool, "t", "", "a")
	trim := func(retention string) []string {
		f.exec(f.Pool, "CALL "+f.name+"_trim($1)", retention)
		return f.taken()
	}
	f.drain("fast", 10)
	f.want("before all have passed", trim("0"), "a")
	f.drain("slow", 10)
	f.want("within the retention", trim("1 hour"), "a")
	f.want("after all have passed", trim("0"))
	f.ok(open.Commit(f.Context()))
	f.want("of what was open", trim("0"), "of an open transaction")
	f.drain("fast", 10)
	f.drain("slow", 10)
	f.want("when that was passed, too", trim("0"))
	if a := f.appendOnce(f.Pool, "t", "", "a"); a.duplicate {
		t.Error("a key that is free makes a duplicate")
	}
}

// Whoever maintains the parked messages frees as many keys as it is told to, after a week.
func TestMaintenanceFreesDedupKeys(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	for _, k := range []string{"a", "b", "c"} {
		f.appendOnce(f.Pool, "t", "", k)
	}
	f.tick()
	sweep := func(limit int) int { return value[int](f, f.Pool, "SELECT "+f.name+"_parked_trim($1)", limit) }
	sweep(2)
	f.want("within a week", f.taken(), "a", "b", "c")
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = at - interval '7 days'")
	sweep(2)
	f.want("after a sweep of two", f.taken(), "c")
	tx := f.begin()
	f.exec(tx, "SELECT "+f.name+"_parked_trim(2)")
	if got := value[string](f, tx, "SELECT current_setting('idle_in_transaction_session_timeout')"); got != "1s" {
		t.Errorf("a caller that has freed keys may be idle for %s", got)
	}
	f.ok(tx.Commit(f.Context()))
	f.want("after another", f.taken())
}

// Where transaction ids began again, keys of before stay taken until their messages are passed.
func TestDedupKeysAfterARestore(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	first := f.appendOnce(f.Pool, "t", "first", "k")
	f.exec(f.Pool, "SELECT "+f.name+"_shift(1000000000)")
	if again := f.appendOnce(f.Pool, "t", "again", "k"); !again.duplicate || again.id != first.id {
		t.Errorf("the key of before: %v, want a duplicate of %v", again, first)
	}
	f.appendOnce(f.Pool, "t", "second", "l")
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_dedup WHERE xid > 1000000000"); n != 1 {
		t.Errorf("%d keys have raised ids, want that of after", n)
	}
	f.exec(f.Pool, "CALL "+f.name+"_trim('0')")
	f.want("before all have passed", f.taken(), "k", "l")
}

// A key whose table stores nothing is an error, and so is a producer that may not write keys: nothing is written.
func TestADedupKeyThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	producer := f.as(`GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT INSERT (id, topic, key, headers, payload) ON {schema}.outbox_log TO {role};
		GRANT USAGE ON SEQUENCE {schema}.outbox_log_seq TO {role};
		GRANT EXECUTE ON FUNCTION {schema}.outbox_log_append TO {role}`)
	once := "SELECT " + f.name + "_append('t', 'x', dedup_key => $1)"
	_, err := producer.Exec(f.Context(), once, "k")
	f.refused("a producer without the right", err, "42501")
	f.exec(f.Pool, "CREATE RULE swallow AS ON INSERT TO "+f.name+"_dedup DO INSTEAD NOTHING")
	_, err = f.Pool.Exec(f.Context(), once, "k")
	f.refused("keys that are not stored", err, "55000")
	_, err = f.Pool.Exec(f.Context(), once, fmt.Sprintf("%0256d", 1))
	f.refused("a long key", err, "22023")
	f.want("written", f.drain("s", 10))
}
