package log_test

import "testing"

func (f *fixture) trim(retention string) (emptied int) {
	f.Helper()
	f.ok(f.Pool.QueryRow(f.Context(), "CALL "+f.name+"_trim($1::interval)", retention).Scan(&emptied))
	return emptied
}

// in writes a message into a slot.
func (f *fixture) in(q querier, slot int, payload string) {
	f.Helper()
	f.exec(q, "INSERT INTO "+f.name+" (slot, topic, payload) VALUES ($1, 'topic', $2)", slot, []byte(payload))
}

func (f *fixture) slot(n int) int {
	f.Helper()
	return value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+" WHERE slot = $1", n)
}

// pass moves positions past everything.
func (f *fixture) pass(subscriptions ...string) {
	f.Helper()
	for _, s := range subscriptions {
		f.drain(s, 1000)
	}
}

func TestNothingIsRemovedThatAPositionNeeds(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("fast")
	f.subscribe("slow")
	f.in(f.Pool, 0, "a")
	f.in(f.Pool, 1, "b")
	f.want("fast", f.drain("fast", 10), "a", "b")
	if n := f.trim("0"); n != 0 || f.slot(0)+f.slot(1) != 2 {
		t.Errorf("%d slots were emptied that a position needs", n)
	}
	f.want("slow", f.drain("slow", 10), "a", "b")
	if n := f.trim("1 hour"); n != 0 {
		t.Errorf("%d slots were emptied within their retention", n)
	}

	f.in(f.Pool, 2, "c")
	elsewhere := f.begin() // a transaction that is open, and has written nothing here, keeps nothing
	f.exec(elsewhere, "SELECT pg_current_xact_id()")
	open := f.begin()
	f.in(open, 1, "late")
	f.want("fast, once more", f.drain("fast", 10), "c")
	f.trim("0")
	if f.slot(0) != 0 || f.slot(1) != 1 {
		t.Errorf("slots have %d and %d messages, want none, and the one beside that of an open transaction", f.slot(0),
			f.slot(1))
	}
	f.ok(open.Commit(f.Context()))
	f.want("fast gets what was kept", f.drain("fast", 10), "late")
	if f.trim("0"); f.slot(1) != 2 {
		t.Error("a slot was emptied that a position has seen in part")
	}
	f.want("slow, too", f.drain("slow", 10), "c", "late")
	if f.trim("0"); f.slot(1) != 0 {
		t.Error("a slot that all have passed was not emptied")
	}
	f.in(f.Pool, 0, "again")
	f.want("an emptied slot is used again", f.drain("fast", 10), "again")
}

// A subscription that is being made keeps what it begins with, and one that would begin before what is kept is refused.
func TestASubscriptionAndARemoval(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.in(f.Pool, 0, "a")
	f.pass("s")
	early := value[string](f, f.Pool, "SELECT (at - interval '1 microsecond')::text FROM "+f.name+
		"_tick WHERE (seen).high > (SELECT min(xid) FROM "+f.name+") ORDER BY n LIMIT 1")
	tx := f.begin()
	f.exec(tx, "SELECT "+f.name+"_subscribe('new', start => '-infinity')")
	if n := f.trim("0"); n != 0 || f.slot(0) != 1 {
		t.Errorf("%d slots were emptied beside a subscription that begins with them", n)
	}
	f.ok(tx.Commit(f.Context()))
	if n := f.trim("0"); n != 0 || f.slot(0) != 1 {
		t.Errorf("%d slots were emptied that a new subscription needs", n)
	}
	if got := f.drain("new", 1000); got[0] != "a" {
		t.Errorf("the new subscription begins with %q", got[0])
	}
	f.pass("s", "new")
	if n := f.trim("0"); n == 0 || f.slot(0) != 0 {
		t.Error("a slot that all have passed was not emptied")
	}
	_, err := f.Pool.Exec(f.Context(), "SELECT "+f.name+"_subscribe('late', start => $1::text::timestamptz)", early)
	f.refused("a start before what is kept", err, "22023")
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe('late', start => '-infinity')")
	f.in(f.Pool, 0, "new")
	got := f.drain("late", 1000)
	f.want("the last that a subscription from the beginning gets", got[len(got)-1:], "new")
}

// Without subscriptions nothing is kept beyond its retention, and the newest tick stays.
func TestALogThatNobodyReads(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.in(f.Pool, 0, "a")
	f.tick()
	f.in(f.Pool, 0, "b")
	f.trim("1 hour")
	if f.slot(0) != 2 {
		t.Error("messages were removed within their retention")
	}
	f.trim("0")
	if f.slot(0) != 0 {
		t.Error("messages are kept that nobody reads")
	}
	if got := value[[]int64](f, f.Pool, "SELECT array_agg(n) FROM "+f.name+"_tick"); len(got) != 1 || got[0] != 2 {
		t.Errorf("ticks %d are left, want 2", got)
	}
}

// Whoever maintains the parked messages trims the log: a slot in each step, after a week.
func TestMaintenanceTrims(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for slot := range 3 {
		f.in(f.Pool, slot, "a")
	}
	f.pass("s")
	week := func() {
		f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = at - interval '7 days'")
	}
	sweep := func() int { return value[int](f, f.Pool, "SELECT "+f.name+"_parked_trim(100)") }
	if n := sweep(); n != 0 || f.slot(0) != 1 {
		t.Errorf("%d slots were emptied within a week", n)
	}
	week()
	f.in(f.Pool, 1, "b") // not seen by any tick of that age
	if n := sweep(); n != 1 || f.slot(0) != 0 || f.slot(2) != 1 {
		t.Errorf("a sweep emptied %d slots, want one", n)
	}
	if n := sweep(); n != 1 || f.slot(2) != 0 {
		t.Errorf("the next sweep emptied %d slots, want one", n)
	}
	if n := sweep(); n != 0 || f.slot(1) != 2 {
		t.Errorf("%d slots were emptied that have a message of today", n)
	}
	f.tick()
	week()
	f.in(f.Pool, 0, "c")
	maintain := "CALL " + f.name + "_parked_maintain(1000, '1 hour', '1 hour')"
	f.exec(f.Pool, maintain)
	if f.slot(1) != 2 {
		t.Error("a slot was emptied that a position needs")
	}
	f.pass("s")
	f.exec(f.Pool, maintain)
	if f.slot(1) != 0 || f.slot(0) != 1 {
		t.Errorf("slots have %d and %d messages, want none, and that of today", f.slot(1), f.slot(0))
	}
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick WHERE at < now() - interval '7 days'"); n != 1 {
		t.Errorf("%d ticks are older than a week, want the newest of them", n)
	}
	bound := func(slots int) string {
		tx := f.begin()
		defer tx.Rollback(f.Context())
		if n := value[int](f, tx, "SELECT "+f.name+"_parked_trim(100)"); n != slots {
			t.Errorf("a sweep emptied %d slots, want %d", n, slots)
		}
		return value[string](f, tx, "SELECT current_setting('idle_in_transaction_session_timeout')")
	}
	if got := bound(0); got != "1s" {
		t.Errorf("after a sweep that has ticked, a session may be idle for %s", got)
	}
	ticker := f.begin()
	f.exec(ticker, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f.name+" tick")
	if got := bound(0); got != "0" {
		t.Errorf("after a sweep that locks nothing, a session may be idle for %s", got)
	}
	week()
	if got := bound(1); got != "1s" {
		t.Errorf("after a sweep that has emptied a slot, a session may be idle for %s", got)
	}
}

// Whoever maintains the parked messages ticks, so that a log without consumers is emptied. It does not if it would have
// to wait for a ticker, or if its transaction has written.
func TestMaintenanceTicks(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	ticks := func() int { return value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick") }
	sweep := "SELECT " + f.name + "_parked_trim(100)"
	f.in(f.Pool, 0, "a")
	f.exec(f.Pool, sweep)
	if n := ticks(); n != 1 {
		t.Errorf("%d ticks after a sweep, want 1", n)
	}
	f.in(f.Pool, 0, "b")
	tx := f.begin()
	f.exec(tx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f.name+" tick")
	f.exec(f.Pool, sweep)
	f.ok(tx.Rollback(f.Context()))
	tx = f.begin()
	f.exec(tx, "SELECT pg_current_xact_id()")
	f.exec(tx, sweep)
	f.ok(tx.Commit(f.Context()))
	if n := ticks(); n != 1 {
		t.Errorf("%d ticks, want 1", n)
	}
	f.exec(f.Pool, sweep)
	if n := ticks(); n != 2 {
		t.Errorf("%d ticks after the next sweep, want 2", n)
	}
}

// A tick that somebody has locked stays a while longer. Who removes ticks has the lock of the tickers, and would keep
// everybody from ticking if it waited.
func TestATickThatIsLockedKeepsNobodyFromTicking(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for range 3 {
		f.append(f.Pool, "m")
		f.tick()
	}
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = at - interval '7 days'")
	held := f.begin()
	f.exec(held, "SELECT FROM "+f.name+"_tick ORDER BY n LIMIT 1 FOR UPDATE")
	f.append(f.Pool, "new")
	for _, sweep := range []string{"SELECT " + f.name + "_parked_trim(100)", "CALL " + f.name + "_trim()"} {
		tx, err := f.Pool.Acquire(f.Context())
		f.ok(err)
		f.exec(tx, "SET lock_timeout = '5s'")
		_, err = tx.Exec(f.Context(), sweep)
		f.ok(err)
		f.exec(tx, "RESET lock_timeout")
		tx.Release()
	}
	left := func() int { return value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick") }
	if n := left(); n != 3 { // the locked one, the newest of before, and that of the sweep
		t.Errorf("%d ticks are left beside one that is locked, want 3", n)
	}
	f.ok(held.Rollback(f.Context()))
	f.trim("7 days")
	if n := left(); n != 2 {
		t.Errorf("%d ticks are left, want 2", n)
	}
}

// Whoever maintains a log that ticks often catches up with its ticks: a sweep that leaves some says so.
func TestMaintenanceCatchesUpWithTicks(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.append(f.Pool, "m")
	f.tick()
	f.exec(f.Pool, "INSERT INTO "+f.name+"_tick (n, at, seen) SELECT (t.seen).n + i, now() - interval '8 days', "+
		"ROW((t.seen).n + i, (t.seen).low, (t.seen).high, (t.seen).open, (t.seen).seq)::"+f.name+"_seen "+
		"FROM "+f.name+"_tick AS t, generate_series(1, 250) AS i")
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = now() - interval '9 days' WHERE n = 1")
	calls := 0
	for n := 100; n >= 100 && calls < 10; calls++ {
		n = value[int](f, f.Pool, "SELECT "+f.name+"_parked_trim(100)")
	}
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick"); n != 1 {
		t.Errorf("%d ticks are left after %d sweeps, want the newest", n, calls)
	}
}
