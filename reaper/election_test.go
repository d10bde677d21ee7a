package reaper_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

func TestOneLeads(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	spec := workqueue.Spec{Table: "work"}
	table := db.table(spec)
	var reaps [4]atomic.Int64
	o := db.options()
	o.Lease = time.Hour // a leader that stands still for so long may lose it
	for i := range reaps {
		table := db.open(spec, func(_ context.Context, e workqueue.Event) {
			if e.Operation == "reap" {
				reaps[i].Add(1)
			}
		})
		db.run(db.Pool, o, table)
	}
	active := func() (n int, total int64) {
		for i := range reaps {
			if v := reaps[i].Load(); v > 0 {
				n, total = n+1, total+v
			}
		}
		return n, total
	}
	db.await("ten rounds", func() bool { _, total := active(); return total >= 10 })
	if n, _ := active(); n != 1 || db.leader(table).Term != 1 {
		t.Errorf("%d of %d reapers worked, term %d; want one in term 1", n, len(reaps), db.leader(table).Term)
	}
}

// A reaper that stops gives up its leadership, so the other one need not wait until the lease expires.
func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	o := db.options()
	o.Lease = time.Hour
	stop := db.run(db.Pool, o, table)
	db.awaitTerm(table, 1)
	db.run(db.Pool, o, table)
	stop()
	db.awaitTerm(table, 2)
	db.rows(table, 10, expired)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
}

func TestRunOnceDoesNothingWhileAnotherLeads(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.lead(table, uuid.New(), 7, "1 hour")
	db.rows(table, 10, expired)
	report := db.runOnce(db.options(), table)
	if report.Leader() || report.Tables[0].Term != 7 {
		t.Errorf("report %+v, want nothing done under term 7", report)
	}
	if n := db.count(table, workqueue.InProgress); n != 10 {
		t.Errorf("%d rows in progress, want all 10", n)
	}
}

func TestRunOnceTakesOverFromTheDead(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.lead(table, uuid.New(), 7, "-1 second")
	report := db.runOnce(db.options(), table)
	if !report.Leader() || report.Tables[0].Term != 8 {
		t.Errorf("report %+v, want a round of term 8", report)
	}
	if l := db.leader(table); l.ExpiresIn > 0 {
		t.Errorf("leadership %+v lasts after RunOnce", l)
	}
}

// A leader dies, and then the database's clock is set back. Its lease would last longer by that amount, so it is void.
func TestALeaseOfAClockThatWasSetBackIsVoid(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	tables := []*workqueue.Table{db.table(workqueue.Spec{Table: "work"})}
	db.exec("INSERT INTO leader SELECT '" + tables[0].Name() +
		"', 7, gen_random_uuid(), now() + interval '1 hour', now() + interval " +
		"'59 minutes'")
	report, err := reaper.RunOnce(t.Context(), db.Pool, tables, db.options())
	if err != nil || !report.Leader() || report.Tables[0].Term != 8 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// Each table has an election of its own. A reaper with several tables serves those that no other reaper leads, and
// touches neither the tables nor the elections of other reapers.
func TestElectionsAreByTable(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	mine, taken, others := db.table(workqueue.Spec{Table: "mine"}), db.table(workqueue.Spec{Table: "taken"}),
		db.table(workqueue.Spec{Table: "others"})
	db.lead(taken, uuid.New(), 7, "1 hour")
	db.lead(others, uuid.New(), 3, "-1 hour")
	for _, table := range []*workqueue.Table{mine, taken, others} {
		db.rows(table, 10, expired)
	}
	o := db.options()
	report := db.runOnce(o, taken, mine)
	if t0, t1 := report.Tables[0], report.Tables[1]; t0.Leader || t0.Term != 7 || t0.Requeued != 0 ||
		!t1.Leader || t1.Term != 1 || t1.Requeued != 10 || !report.Leader() {
		t.Errorf("report %+v, want a round of term 1 on the second table only", report)
	}
	if l := db.leader(taken); l.Term != 7 || l.ExpiresIn <= 0 || db.count(taken, workqueue.InProgress) != 10 {
		t.Errorf("leadership %+v of the table that another leads", l)
	}
	if l := db.leader(others); l.Term != 3 || db.count(others, workqueue.InProgress) != 10 {
		t.Errorf("leadership %+v of a table that the reaper was not given", l)
	}
}

// A term that somebody wrote by hand does not stop elections when it cannot grow.
func TestTermsBeginAgain(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "last"})
	db.lead(table, uuid.New(), math.MaxInt64, "-1 hour")
	if r := db.runOnce(db.options(), table).Tables[0]; !r.Leader || r.Term != 1 {
		t.Errorf("the round after the last term: %+v, want a leader with term 1", r)
	}
}

// Processes with overlapping sets of tables maintain all tables together. Each table is served by one process, in
// whatever order they start.
func TestOverlappingSetsAreAllServed(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	specs := []workqueue.Spec{{Table: "a"}, {Table: "b"}, {Table: "c"}}
	var tables []*workqueue.Table
	for _, spec := range specs {
		tables = append(tables, db.table(spec))
	}
	var reaps [2][3]atomic.Int64
	set := func(process int, of ...int) (set []*workqueue.Table) {
		for _, i := range of {
			set = append(set, db.open(specs[i], func(_ context.Context, e workqueue.Event) {
				if e.Operation == "reap" {
					reaps[process][i].Add(1)
				}
			}))
		}
		return set
	}
	o := db.options()
	o.Lease = time.Hour // a leader that stands still for so long may lose it
	stop := db.run(db.Pool, o, set(0, 0, 1)...)
	db.awaitTerm(tables[1], 1)
	db.run(db.Pool, o, set(1, 2, 1)...)
	for _, table := range tables {
		db.rows(table, 1, expired)
	}
	for _, table := range tables {
		db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
	}
	if n := reaps[1][1].Load(); n != 0 {
		t.Errorf("the second process served the table of the first %d times", n)
	}
	stop()
	db.awaitTerm(tables[1], 2)
	db.rows(tables[1], 1, expired)
	db.await("reaped rows of the shared table", func() bool { return db.count(tables[1], workqueue.InProgress) == 0 })
	if n := reaps[1][1].Load(); n == 0 {
		t.Error("the second process did not serve the shared table that it leads")
	}
}

// Losing the leadership of one table during a round does not affect the other tables.
func TestStaleTermOfOneTable(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	var once atomic.Bool
	lost := db.table(workqueue.Spec{Table: "lost"})
	kept := db.observed(workqueue.Spec{Table: "kept"}, func(context.Context, workqueue.Event) {
		if once.CompareAndSwap(false, true) {
			db.exec("UPDATE leader SET term = term + 1, holder = gen_random_uuid() WHERE name = '" + lost.Name() + "'")
		}
	})
	db.rows(lost, 10, expired)
	db.rows(kept, 10, expired)
	report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{kept, lost}, db.options())
	if !errors.Is(err, reaper.ErrNotLeader) || !strings.Contains(err.Error(), lost.Name()) {
		t.Errorf("error %v, want ErrNotLeader of one table", err)
	}
	if k, l := report.Tables[0], report.Tables[1]; k.Requeued != 10 || k.Error != "" || l.Requeued != 0 ||
		l.Error == "" {
		t.Errorf("report %+v", report)
	}
	if n := db.count(lost, workqueue.InProgress); n != 10 {
		t.Errorf("%d rows in progress, want all of the table that another leads", n)
	}
}

// Many candidates create and take over an election at once. Each term has one holder.
func TestElectionRace(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	var running atomic.Int64
	table = db.open(table.Spec(), func(context.Context, workqueue.Event) {
		if running.Add(1) > 1 {
			t.Error("two rounds at once")
		}
		pgtest.Pass(time.Millisecond)
		running.Add(-1)
	})
	o := db.options()
	o.Lease = time.Hour // a round that takes longer would lose its term; it gives the leadership back when it ends
	const candidates, rounds = 6, 10
	terms := make(chan int64, candidates*rounds)
	failures := make(chan error, candidates)
	for range candidates {
		go func() {
			for range rounds {
				report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, o)
				if err != nil {
					failures <- err
					return
				}
				if report.Leader() {
					terms <- report.Tables[0].Term
				}
			}
			failures <- nil
		}()
	}
	for range candidates {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	close(terms)
	seen := map[int64]bool{}
	for term := range terms {
		if seen[term] {
			t.Errorf("term %d was issued twice", term)
		}
		seen[term] = true
	}
	if len(seen) == 0 || int64(len(seen)) != db.leader(table).Term {
		t.Errorf("%d rounds led up to term %d", len(seen), db.leader(table).Term)
	}
}

// A leader that freezes between two batches and loses its term can no longer change anything.
func TestStaleTermIsRefusedBetweenBatches(t *testing.T) {
	t.Parallel()
	for name, theft := range map[string]string{
		"by another":                   "UPDATE leader SET term = term + 1, holder = gen_random_uuid()",
		"and back":                     "UPDATE leader SET term = term + 2",
		"by a restored leader table":   "UPDATE leader SET holder = gen_random_uuid()",
		"by the loss of the table row": "DELETE FROM leader",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var begins atomic.Int64
			var steal func()
			db := newDatabase(t, traced(func(sql string) {
				// The transactions are the election, a reap, a purge that finds nothing, and then only reaps.
				if strings.HasPrefix(sql, "begin") && begins.Add(1) == 5 {
					steal()
				}
			}))
			table := db.table(workqueue.Spec{Table: "work"})
			db.rows(table, 50, expired)
			thief := newPool(t, db.URL)
			steal = func() {
				if _, err := thief.Exec(t.Context(), theft); err != nil {
					t.Error(err)
				}
			}
			o := db.options()
			o.BatchSize, o.Lease = 10, time.Hour

			report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, o)

			if !errors.Is(err, reaper.ErrNotLeader) {
				t.Errorf("error %v, want ErrNotLeader", err)
			}
			wantCounts(t, report.Total(), reaper.Counts{Requeued: 20})
			if n := db.count(table, workqueue.InProgress); n != 30 {
				t.Errorf("%d rows in progress, want the 30 of the batches after the theft", n)
			}
		})
	}
}

// A reaper that stops gives up only its own leadership.
func TestStopLeavesTheLeadershipOfOthersAlone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	stop := db.run(db.Pool, db.options(), table)
	db.awaitTerm(table, 1)
	db.exec("UPDATE leader SET term = 2, holder = gen_random_uuid(), expires_at = now() + interval '1 hour'")
	stop()
	if l := db.leader(table); l.Term != 2 || l.ExpiresIn <= 0 {
		t.Errorf("leadership %+v after another's stop", l)
	}
}

// Two candidates create the election of a table at once. One wins, and the other does nothing.
func TestFoundingRace(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	var report reaper.Report
	ended := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "INSERT INTO leader VALUES ($1, 1, gen_random_uuid(), now() + "+
			"interval '1 hour', now())", table.Name()); err != nil {
			return err
		}
		o := db.options()
		o.Lease = time.Hour
		go func() {
			var err error
			report, err = reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, o)
			ended <- err
		}()
		db.await("candidate that waits", func() bool { return db.waiting("WITH candidate") })
		return nil
	})
	if err := errors.Join(err, <-ended); err != nil || report.Leader() {
		t.Errorf("report %+v, error %v; want nothing done", report, err)
	}
}

// A candidate does not wait for an expired lease whose leader is still committing its last batch.
func TestElectionDoesNotWaitForALastBatch(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.lead(table, uuid.New(), 7, "-1 second")
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT FROM leader FOR SHARE"); err != nil {
			return err
		}
		if report := db.runOnce(db.options(), table); report.Leader() || report.Tables[0].Term != 7 {
			t.Errorf("report %+v within the last batch of term 7, want nothing done", report)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if report := db.runOnce(db.options(), table); !report.Leader() || report.Tables[0].Term != 8 {
		t.Errorf("report %+v, want a round of term 8", report)
	}
}

// A candidate does not wait for the transaction of another candidate that is taking the leadership.
func TestElectionDoesNotWaitForAnElection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	db.lead(table, uuid.New(), 7, "-1 second")
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "UPDATE leader SET term = 8, holder = gen_random_uuid(), expires_at = "+
			"now() + interval '1 hour'"); err != nil {
			return err
		}
		if report := db.runOnce(db.options(), table); report.Leader() || report.Tables[0].Term != 7 {
			t.Errorf("report %+v while another is elected, want nothing done", report)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Operators look at how long no reaper has led. A leader that stops long after its lease has expired must not change
// that.
func TestStopDoesNotRenewALeaseThatHasEnded(t *testing.T) {
	t.Parallel()
	var begins atomic.Int64
	var end func()
	db := newDatabase(t, traced(func(sql string) {
		if strings.HasPrefix(sql, "begin") && begins.Add(1) == 2 { // the first transaction is the election
			end()
		}
	}))
	table := db.table(workqueue.Spec{Table: "work"})
	other := newPool(t, db.URL)
	end = func() {
		if _, err := other.Exec(t.Context(), "UPDATE leader SET expires_at = now() - interval '1 hour'"); err != nil {
			t.Error(err)
		}
	}
	o := db.options()
	o.Lease = 2 * time.Hour
	if report := db.runOnce(o, table); !report.Leader() {
		t.Errorf("report %+v, want a round", report)
	}
	if l := db.leader(table); l.ExpiresIn > -59*time.Minute {
		t.Errorf("leadership %+v, want one that ended an hour ago", l)
	}
}

// waiting reports whether a statement on this schema waits for a lock.
func (db *database) waiting(like string) bool {
	return db.int(`SELECT count(*) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%' AND query LIKE '%' || $2 || '%'`, db.Schema, like) > 0
}

// The term cannot be taken away during a batch: the session that takes it waits until the batch has committed, and no
// batch commits after that.
func TestTermCannotEndWithinABatch(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	stolen := make(chan int, 1)
	var once atomic.Bool
	table := db.observed(workqueue.Spec{Table: "work"}, func(context.Context, workqueue.Event) {
		if once.CompareAndSwap(false, true) {
			go func() { stolen <- db.stealAndCount() }()
			db.await("theft that waits", func() bool { return db.waiting(".leader SET term") })
		}
	})
	db.rows(table, 1000, expired)
	o := db.options()
	o.BatchSize, o.Lease = 1, time.Hour

	report, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, o)

	if !errors.Is(err, reaper.ErrNotLeader) {
		t.Errorf("error %v, want ErrNotLeader", err)
	}
	at := <-stolen
	if after := db.count(table, workqueue.Ready); at != after || report.Total().Requeued != after {
		t.Errorf("%d rows requeued at the theft, %d at the end, %d reported", at, after, report.Total().Requeued)
	}
	if at == 0 {
		t.Error("the theft did not wait for the batch")
	}
}

// stealAndCount takes the term and counts the requeued rows in one transaction.
func (db *database) stealAndCount() (requeued int) {
	err := pgx.BeginFunc(context.Background(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(context.Background(), "UPDATE "+db.Schema+
			".leader SET term = term + 1, holder = gen_random_uuid()"); err != nil {
			return err
		}
		return tx.QueryRow(context.Background(), "SELECT count(*) FROM work WHERE status = 0").Scan(&requeued)
	})
	if err != nil {
		db.t.Error(err)
	}
	return requeued
}

// A leader that freezes during a batch does not keep others from leading for longer than its lease, and its batch
// changes nothing.
func TestLeaderFrozenWithinABatch(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	thawed := make(chan struct{})
	frozen := make(chan struct{})
	var once atomic.Bool
	spec := workqueue.Spec{Table: "work"}
	table := db.observed(spec, func(context.Context, workqueue.Event) {
		if once.CompareAndSwap(false, true) {
			close(frozen)
			<-thawed
		}
	})
	db.rows(table, 5, expired)
	ended := make(chan error, 1)
	go func() {
		_, err := reaper.RunOnce(t.Context(), db.Pool, []*workqueue.Table{table}, db.options())
		ended <- err
	}()
	<-frozen
	db.run(db.Pool, db.options(), db.open(spec, nil))
	db.awaitTerm(table, 2)
	db.await("reaped rows", func() bool { return db.count(table, workqueue.InProgress) == 0 })
	close(thawed)
	if err := <-ended; err == nil {
		t.Error("the frozen leader saw no error")
	}
	if n := db.int("SELECT count(*) FROM " + table.Name() + " WHERE status = 0 AND attempts = 1"); n != 5 {
		t.Errorf("%d rows Ready after one attempt, want 5", n)
	}
}

// A round that takes longer than the lease keeps the leadership as long as it makes progress.
func TestLongRoundRenews(t *testing.T) {
	t.Parallel()
	const pause = 100 * time.Millisecond
	db := newDatabase(t)
	var table *workqueue.Table
	table = db.observed(workqueue.Spec{Table: "work"}, func(context.Context, workqueue.Event) {
		if l := db.leader(table); l.Term != 1 || l.ExpiresIn <= 0 {
			t.Errorf("leadership %+v within the round", l)
		}
		pgtest.Pass(pause)
	})
	o := db.options()
	o.BatchSize = 1
	rows := int(2 * o.Lease / pause)
	db.rows(table, rows, expired)
	wantCounts(t, db.runOnce(o, table).Total(), reaper.Counts{Requeued: rows})
}

func TestLeaders(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	if l := db.leader(table); l != nil {
		t.Errorf("leader %+v before any election", l)
	}
	holder := uuid.New()
	db.lead(table, holder, 3, "1 hour")
	l := db.leader(table)
	if l.Table != table.Name() || l.Term != 3 || l.Holder != holder || l.ExpiresIn <= 0 || l.ExpiresIn > time.Hour {
		t.Errorf("leader %+v", l)
	}
}

// lead makes a holder the leader of a table.
func (db *database) lead(table *workqueue.Table, holder uuid.UUID, term int64, lease string) {
	db.t.Helper()
	_, err := db.Pool.Exec(context.Background(), "INSERT INTO leader VALUES ($4, $1, $2, now() + "+
		"$3::text::interval, now() - interval '3 hours')", term, holder, lease, table.Name())
	if err != nil {
		db.t.Fatal(err)
	}
}
