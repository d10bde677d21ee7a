package log_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// listen listens to what the log announces. The result returns all of it until now.
func (f *fixture) listen() (heard func() []string) {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.Pool.Config().ConnString())
	f.ok(err)
	f.Cleanup(func() { conn.Close(context.Background()) })
	_, err = conn.Exec(f.Context(), `LISTEN "`+f.name+`_parked"`)
	f.ok(err)
	return func() (all []string) {
		f.Helper()
		f.ok(conn.Ping(f.Context())) // what was sent before has arrived
		arrived, cancel := context.WithCancel(f.Context())
		cancel()
		for {
			n, err := conn.WaitForNotification(arrived)
			if err != nil {
				return all
			}
			all = append(all, n.Payload)
		}
	}
}

// promise ticks, and promises to tick again for so long.
func (f *fixture) promise(length string) (newest, keeper int64, stored, expects bool) {
	f.Helper()
	var k *int64
	f.ok(f.Pool.QueryRow(f.Context(), "CALL "+f.name+"_tick(promise => '"+length+"')").Scan(&newest, &stored, &k,
		&expects, nil))
	if k != nil {
		keeper = *k
	}
	return newest, keeper, stored, expects
}

// silentUntil moves the end of the promise of the newest tick.
func (f *fixture) silentUntil(in string) {
	f.Helper()
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET silent_until = clock_timestamp() + $1::text::interval "+
		"WHERE n = (SELECT max(n) FROM "+f.name+"_tick)", in)
}

func (f *fixture) heard(what string, got []string, want ...string) {
	f.Helper()
	for i := range want {
		want[i] = "external:" + want[i]
	}
	if !slices.Equal(got, want) {
		f.Errorf("%s: heard %q, want %q", what, got, want)
	}
}

// Messages are announced once for each transaction, whatever the number of subscriptions, and a tick to those that want
// what it has seen.
func TestMessagesAndTicksAreAnnounced(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('all'), "+f.name+"_subscribe('topic', '{topic}'), "+
		f.name+"_subscribe('prefix', '{top*}'), "+f.name+"_subscribe('other', '{other}'), "+
		f.name+"_subscribe('paused')")
	f.exec(f.Pool, "SELECT "+f.name+"_pause('paused')")
	heard := f.listen()
	tx := f.begin()
	f.append(tx, "a", "b", "c")
	f.ok(tx.Commit(f.Context()))
	f.heard("a transaction", heard(), "")
	f.tick()
	f.heard("its tick", heard(), `["all", "topic", "prefix"]`)
	f.tick()
	f.heard("a tick without news", heard())
	f.exec(f.Pool, "SELECT "+f.name+"_append('topic', '', scheduled_at => now() + interval '1 hour')")
	f.heard("a message that is not due", heard())
	f.exec(f.Pool, "INSERT INTO "+f.name+" (topic, payload) SELECT 'topic', '' FROM generate_series(1, 1000)")
	f.heard("many messages", heard(), "")
	f.tick()
	f.heard("their tick", heard(), "*")
}

// While a promise to tick is running, producers announce nothing, and whoever has promised goes on until the last of
// them has ended.
func TestAPromiseToTick(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	if _, _, stored, expects := f.promise("1 second"); stored || expects {
		t.Errorf("behind a tick without a promise, a tick is stored: %v, or expected: %v", stored, expects)
	}
	f.append(f.Pool, "first")
	heard := f.listen()
	own, keeper, stored, expects := f.promise("1 second")
	if !stored || keeper != own || !expects {
		t.Fatalf("the tick was stored: %v, its keeper is %d of %d, and is expected: %v", stored, keeper, own, expects)
	}
	f.heard("the tick", heard(), `["s"]`)

	f.silentUntil("0.9 seconds") // and again before each message: this may take any time
	silent := f.begin()
	for f.append(silent, "silent"); ; f.append(silent, "silent") {
		if n := value[int](f, silent, "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND "+
			"locktype = 'advisory' AND mode = 'ShareLock'"); n > 0 {
			break // it did not take longer than the promise
		}
		f.ok(silent.Rollback(f.Context()))
		f.silentUntil("0.9 seconds")
		silent = f.begin()
	}
	f.silentUntil("-1 second")
	for range 2 {
		if _, k, stored, expects := f.promise("1 second"); stored || k != own || !expects {
			t.Errorf("while a silent transaction is open, a tick is stored: %v, for keeper %d of %d who is expected: %v",
				stored, k, own, expects)
		}
	}
	f.append(f.Pool, "announced")
	f.heard("a message behind the promise", heard(), "")
	inherits, stored := f.tick()
	if k := value[int64](f, f.Pool, "SELECT keeper FROM "+f.name+"_tick WHERE n = $1", inherits); !stored || k != own {
		t.Errorf("a tick that promises nothing was stored: %v, and has the keeper %d, want %d", stored, k, own)
	}
	heard()
	f.ok(silent.Commit(f.Context()))
	f.heard("a silent transaction", heard())
	last, k, stored, _ := f.promise("0")
	if !stored || k != last {
		t.Errorf("the tick behind a silent transaction was stored: %v, for keeper %d of %d", stored, k, last)
	}
	if _, _, stored, expects := f.promise("0"); stored || expects {
		t.Errorf("without news and silent transactions, a tick is stored: %v, or the keeper is expected: %v", stored,
			expects)
	}
	f.silentUntil("1 hour") // the clock was put back
	heard()
	f.append(f.Pool, "m")
	f.heard("a promise that nobody can have made", heard(), "")
	f.want("s", f.drain("s", 10), "first", "silent", "announced", "m")
}

// A relay that stops ends no promise of before: a producer with an older snapshot relies on it.
func TestAPromiseIsKeptForOlderSnapshots(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.append(f.Pool, "first")
	f.promise("1 second")
	old, err := f.Pool.BeginTx(f.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	f.ok(err)
	t.Cleanup(func() { _ = old.Rollback(context.Background()) })
	f.exec(old, "SELECT count(*) FROM "+f.name+"_tick")
	f.append(f.Pool, "second")
	for expects := true; expects; {
		_, _, _, expects = f.promise("0")
	}
	heard := f.listen()
	f.append(old, "third")
	f.ok(old.Commit(f.Context()))
	f.heard("a message behind the last tick of a keeper", heard(), "")
}
