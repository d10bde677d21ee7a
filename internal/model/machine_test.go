package model_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

const capHours = 3

// A machine is one game: the table, its model, and every claim that was ever made.
type machine struct {
	table
	db     *pgtest.DB
	sql    *sql.DB
	real   *workqueue.Table
	claims []claim
}

type claim struct {
	token uuid.UUID
	ids   []uuid.UUID
}

// A way runs a step on the library. The model follows what it says about the commit.
type way struct {
	name      string
	rollsBack bool
}

var ways = []way{{name: "pool"}, {name: "pool"}, {name: "pgx"}, {name: "database/sql"}, {name: "pgx, rolled back",
	rollsBack: true}}

func (w way) String() string { return w.name }

func drawWay(t *rapid.T) way { return rapid.SampledFrom(ways).Draw(t, "way") }

// play runs one step in a way, on the table and on the model. A step that is rolled back is checked too: the answers of
// its calls have to fit the model before both discard it.
func (m *machine) play(t *rapid.T, w way, step func(context.Context, *workqueue.Queue, workqueue.Tx) error) {
	before, claims := m.snapshot(), len(m.claims)
	if err := m.runIn(w, step); err != nil {
		t.Fatal(err)
	}
	if w.rollsBack {
		m.rows, m.claims = before, m.claims[:claims]
	}
}

func (m *machine) runIn(w way, step func(context.Context, *workqueue.Queue, workqueue.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch w.name {
	case "pool":
		return workqueue.InTx(ctx, m.db.Pool, func(tx workqueue.Tx) error {
			return step(ctx, m.real.On(m.db.Pool), tx)
		})
	case "database/sql":
		return m.inSQL(ctx, step)
	}
	tx, err := m.db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	wrapped := workqueue.Pgx(tx)
	if err := step(ctx, m.real.In(wrapped), wrapped); err != nil || w.rollsBack {
		return err
	}
	return tx.Commit(ctx)
}

func (m *machine) inSQL(ctx context.Context, step func(context.Context, *workqueue.Queue, workqueue.Tx) error) error {
	tx, err := m.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	wrapped := workqueue.SQL(tx)
	if err := step(ctx, m.real.In(wrapped), wrapped); err != nil {
		return err
	}
	return tx.Commit()
}

// snapshot copies the rows.
func (m *machine) snapshot() []*row {
	rows := make([]*row, len(m.rows))
	for i, r := range m.rows {
		c := *r
		rows[i] = &c
	}
	return rows
}

func (m *machine) Insert(t *rapid.T) {
	w := drawWay(t)
	n := rapid.IntRange(1, 4).Draw(t, "rows")
	now := m.clock(t)
	var rows []workqueue.NewRow
	var models []*row
	for range n {
		r := &row{
			key: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key"), lane: rapid.IntRange(1, 2).Draw(t,
				"lane"),
			max: rapid.IntRange(1, 3).Draw(t, "max attempts"), backoff: rapid.SampledFrom([]int{0, 0, 4}).Draw(t,
				"own backoff"),
			completed: never, failed: never, lockedTo: never,
		}
		in := rapid.IntRange(-1, 2).Draw(t, "due in")
		r.due = m.now + hours(max(in, 0))
		rows, models = append(rows, r.newRow(now.Add(time.Duration(in)*time.Hour))), append(models, r)
	}
	m.play(t, w, func(ctx context.Context, _ *workqueue.Queue, tx workqueue.Tx) error {
		got, err := m.real.Insert(ctx, tx, rows...)
		for i := range got {
			m.inserted(t, models[i], got[i])
		}
		return err
	})
}

func (r *row) newRow(due time.Time) workqueue.NewRow {
	n := workqueue.NewRow{DueAt: due, MaxAttempts: r.max, Values: []any{nil, r.lane}}
	if r.key != "" {
		n.Values[0] = r.key
	}
	if r.backoff > 0 {
		n.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: time.Duration(r.backoff) * time.Hour}
	}
	return n
}

func (m *machine) inserted(t *rapid.T, r *row, got workqueue.Enqueued) {
	holders := m.where(func(o *row) bool { return r.key != "" && o.key == r.key })
	if got.Duplicate != (len(holders) > 0) {
		t.Fatalf("insert of key %q: duplicate %v, the model has %d holders", r.key, got.Duplicate, len(holders))
	}
	if got.Duplicate {
		if got.ID != holders[0].id {
			t.Fatalf("insert of key %q: reported holder %s, want %s", r.key, got.ID, holders[0].id)
		}
		return
	}
	r.id = got.ID
	m.rows = append(m.rows, r)
}

func (m *machine) Claim(t *rapid.T) {
	w, limit, lane := drawWay(t), rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 2).Draw(t, "lane")
	lease := rapid.IntRange(1, 2).Draw(t, "lease")
	c := claim{token: workqueue.NewOwnerToken()}
	rand.Read(c.token[:6]) // each claim is of a process of its own
	m.play(t, w, func(ctx context.Context, q *workqueue.Queue, _ workqueue.Tx) error {
		got, err := q.Claim(ctx, c.token, time.Duration(lease)*time.Hour, limit, lane)
		if err != nil {
			return err
		}
		for _, r := range got {
			c.ids = append(c.ids, r.ID)
		}
		due := m.where(func(r *row) bool { return r.ready(m.now) && r.lane == lane })
		m.sameChoice(t, "claim", c.ids, due, limit, func(r *row) hours { return r.due })
		for i, g := range got {
			r := m.find(g.ID)
			r.status, r.token, r.lockedTo, r.attempts = workqueue.InProgress, c.token, m.now+hours(lease), r.attempts+1
			if g.Attempt != r.attempts || g.MaxAttempts != r.max || g.Token != c.token {
				t.Fatalf("claimed %+v, the model has %+v", g, *r)
			}
			if i > 0 && got[i-1].DueAt.After(g.DueAt) {
				t.Fatalf("claimed out of order: %v before %v", got[i-1].DueAt, g.DueAt)
			}
		}
		m.claims = append(m.claims, c)
		return nil
	})
}

// sameChoice checks which of the candidates were taken: the oldest ones, up to the limit.
func (m *machine) sameChoice(t *rapid.T, what string, got []uuid.UUID, candidates []*row, limit int,
	at func(*row) hours) {
	if want := min(limit, len(candidates)); len(got) != want {
		t.Fatalf("%s took %d of %d rows, the limit is %d", what, len(got), len(candidates), limit)
	}
	certain, last := oldest(candidates, limit, at)
	for _, r := range certain {
		if !slices.Contains(got, r.id) {
			t.Fatalf("%s did not take %s, which precedes others that it took", what, r.id)
		}
	}
	for _, id := range got {
		if r := m.find(id); !slices.Contains(certain, r) && !slices.Contains(last, r) {
			t.Fatalf("%s took %s, although it was not its turn", what, id)
		}
	}
}

// Settle settles or extends rows of any claim that was ever made, once or, as after a lost reply, twice. Rows that the
// claim never held may be among them.
func (m *machine) Settle(t *rapid.T) {
	if len(m.claims) == 0 {
		t.Skip("no claim yet")
	}
	// The newest claims are the most likely to be current.
	c := m.claims[len(m.claims)-1-rapid.IntRange(0, min(len(m.claims)-1, 7)).Draw(t, "claim")]
	ids := slices.Clone(c.ids)
	if len(ids) > 1 && rapid.Bool().Draw(t, "only one") {
		ids = ids[:1]
	}
	if len(m.rows) > 0 && rapid.IntRange(0, 4).Draw(t, "a stranger") == 0 {
		ids = append(ids, rapid.SampledFrom(m.rows).Draw(t, "stranger").id)
	}
	if rapid.IntRange(0, 4).Draw(t, "named twice") == 0 {
		ids = append(ids, ids...)
	}
	o, w := drawOp(t), drawWay(t)
	for range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "times") {
		m.play(t, w, func(ctx context.Context, q *workqueue.Queue, _ workqueue.Tx) error {
			got, err := o.call(ctx, q, c.token, ids)
			m.settled(t, o, c.token, ids, got, err)
			return nil
		})
	}
}

func (m *machine) settled(t *rapid.T, o op, token uuid.UUID, ids, got []uuid.UUID, err error) {
	want := map[verdict][]uuid.UUID{}
	for _, id := range unique(ids) {
		v := m.settle(o, token, id)
		want[v] = append(want[v], id)
	}
	var refused *workqueue.SettleError
	if err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if refused == nil {
		refused = &workqueue.SettleError{}
	}
	sameIDs(t, o.name+" changed", got, want[changed])
	sameIDs(t, o.name+" told of lost leases", refused.Lost, want[lost])
	sameIDs(t, o.name+" told of rows that are gone", refused.Gone, want[gone])
}

func (m *machine) Cancel(t *rapid.T) {
	ids := m.drawIDs(t)
	m.play(t, drawWay(t), func(ctx context.Context, q *workqueue.Queue, _ workqueue.Tx) error {
		got, err := q.Cancel(ctx, ids, "unwanted")
		var want []uuid.UUID
		for _, id := range unique(ids) {
			if r := m.find(id); r != nil && !r.cancelled && r.status < workqueue.Done {
				want = append(want, id)
				r.cancelled, r.lastError = true, "cancelled: unwanted"
				if r.status == workqueue.Ready {
					r.token = uuid.Nil
					r.end(workqueue.Failed, m.now)
				}
			}
		}
		sameIDs(t, "cancel", got, want)
		return err
	})
}

func (m *machine) Redrive(t *rapid.T) {
	ids := m.drawIDs(t)
	m.play(t, drawWay(t), func(ctx context.Context, q *workqueue.Queue, _ workqueue.Tx) error {
		got, err := q.Redrive(ctx, ids, "somebody")
		var want []uuid.UUID
		for _, id := range unique(ids) {
			if r := m.find(id); r != nil && r.status == workqueue.Failed {
				want = append(want, id)
				r.attempts, r.token, r.cancelled = 0, uuid.Nil, false
				r.alone, r.together, r.noted = 0, 0, uuid.Nil
				r.again(m.now)
			}
		}
		sameIDs(t, "redrive", got, want)
		return err
	})
}

// laneApart is more hours than any game lasts: a reap reads the claim index lane by lane.
const laneApart = 1_000_000

// Reap checks how many rows the reaper reports. The table says which ones.
func (m *machine) Reap(t *rapid.T) {
	limit := rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "limit")
	expired := m.where(func(r *row) bool { return r.expired(m.now) })
	got, err := m.real.On(m.db.Pool).ReapExpired(context.Background(), limit)
	if err != nil {
		t.Fatal(err)
	}
	var taken []uuid.UUID
	for id, r := range m.stored(t) {
		if mine := m.find(id); mine != nil && mine.status == workqueue.InProgress && r.status != workqueue.InProgress {
			taken = append(taken, id)
		}
	}
	m.sameChoice(t, "reap", taken, expired, limit, func(r *row) hours { return hours(r.lane)*laneApart + r.due })
	want := workqueue.Reaped{}
	held := map[uuid.UUID]int{}
	for _, r := range m.where(func(r *row) bool { return r.status == workqueue.InProgress }) {
		held[r.token]++
	}
	left := maps.Clone(held)
	for _, id := range taken {
		r := m.find(id)
		left[r.token]--
		cause := fmt.Sprintf("lease expired in attempt %d", r.attempts)
		due, alone := max(m.now, r.lockedTo+r.delay()), r.alone
		if r.lose(held[r.token] > 1 || r.noted == r.token) && !r.cancelled {
			r.attempts--
			r.again(due)
			r.fault(cause + notCounted)
		} else {
			if r.alone > alone && alone > 0 {
				cause += fmt.Sprintf(", lost alone %d times: it may end its process", r.alone)
			}
			r.fault(cause)
			r.retryOrFail(due, m.now)
		}
		if r.status == workqueue.Failed {
			want.Failed++
		} else {
			want.Requeued++
		}
	}
	for _, r := range m.where(func(r *row) bool { return r.status == workqueue.InProgress }) {
		if left[r.token] == 1 && held[r.token] > 1 {
			r.noted = r.token
		}
	}
	for _, id := range taken {
		r := m.find(id)
		r.token, r.noted = uuid.Nil, uuid.Nil
	}
	if got != want {
		t.Fatalf("reap: got %+v, want %+v", got, want)
	}
}

// notCounted is the end of the error of a row whose attempt was given back.
const notCounted = ", which does not count: other rows of its process were lost with it"

func (m *machine) Purge(t *rapid.T) {
	age, limit := hours(rapid.IntRange(0, 3).Draw(t, "age")), rapid.SampledFrom([]int{1, 1000}).Draw(t, "limit")
	q := m.real.On(m.db.Pool)
	purge, at := q.PurgeDone, func(r *row) hours { return r.completed }
	ended := func(r *row) bool { return r.status == workqueue.Done || r.status == workqueue.Failed && r.cancelled }
	if rapid.Bool().Draw(t, "dead letters") {
		purge, at = q.PurgeFailed, func(r *row) hours { return r.failed }
		ended = func(r *row) bool { return r.status == workqueue.Failed && !r.cancelled }
	}
	old := m.where(func(r *row) bool { return ended(r) && at(r)+age <= m.now })
	n, err := purge(context.Background(), time.Duration(age)*time.Hour, limit)
	if err != nil {
		t.Fatal(err)
	}
	left := m.stored(t)
	var taken []uuid.UUID
	for _, r := range m.rows {
		if _, ok := left[r.id]; !ok {
			taken = append(taken, r.id)
		}
	}
	if n != len(taken) {
		t.Fatalf("purge says %d, %d rows are gone", n, len(taken))
	}
	m.sameChoice(t, "purge", taken, old, limit, at)
	for _, id := range taken {
		m.remove(m.find(id))
	}
}

// Pass lets hours pass: one statement moves every time in the table back.
func (m *machine) Pass(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "hours")
	var sets []string
	for _, c := range []string{"due_at", "locked_until", "completed_at", "failed_at"} {
		sets = append(sets, fmt.Sprintf("%s = %s - interval '%d hours'", c, c, n))
	}
	m.exec(t, "UPDATE "+m.real.Name()+" SET "+strings.Join(sets, ", "))
	m.now += hours(n)
}

// drawIDs draws ids of the table, and one that was never in it.
func (m *machine) drawIDs(t *rapid.T) []uuid.UUID {
	ids := []uuid.UUID{uuid.Max}
	for range rapid.IntRange(0, min(3, len(m.rows))).Draw(t, "how many") {
		ids = append(ids, rapid.SampledFrom(m.rows).Draw(t, "row").id)
	}
	return ids
}

func unique(ids []uuid.UUID) []uuid.UUID {
	return slices.Compact(slices.SortedFunc(slices.Values(ids), func(a,
		b uuid.UUID) int {
		return strings.Compare(a.String(), b.String())
	}))
}

func sameIDs(t *rapid.T, what string, got, want []uuid.UUID) {
	if len(got) != len(unique(got)) || !slices.Equal(unique(got), unique(want)) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
