package workqueue

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/announce"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// How often an announcer that is awake looks, and for what.
const (
	// lookEvery is the time between two looks beyond the cursors. After a look, an announcer rests for at least
	// lookRest times as long as the look took. On a busy machine lookRest decides: with 4 instead of 2, a message was
	// done 8 ms later.
	lookEvery = 2 * time.Millisecond
	lookRest  = 2

	// longestLookRest is well below the time after which the server ends the session of an announcer that is silent. A
	// look takes half a second on a server that is overloaded.
	longestLookRest = 250 * time.Millisecond

	// backEvery is the time between two looks that begin before the cursors, for rows that became visible late.
	// backShare bounds the share of the time that these looks take.
	backEvery = 10 * time.Millisecond
	backShare = 20 // one part in 20

	// sampleEvery is how often it asks which silent transactions are open.
	sampleEvery = 100 * time.Millisecond

	// lookBack is how far before the horizon it looks: the age at which a transaction may still turn silent, and a
	// margin for the time between the two locks of such a transaction.
	lookBack = announce.SilentWithin + 500*time.Millisecond

	// againEvery is how often it announces a ready row that no worker claims.
	againEvery = 250 * time.Millisecond

	// beatEvery is how often it announces everything that it may have overlooked, such as rows of lanes at which it
	// does not look.
	beatEvery = time.Second
)

// announcerSettings bound an announcer's session at the server. An announcer speaks every few milliseconds, so one that
// has been silent for a second is frozen or out of reach.
var announcerSettings = append([]conn.Setting{
	{Name: "synchronous_commit", Value: "off"},
	{Name: "idle_session_timeout", Value: "1s"},
	{Name: "idle_in_transaction_session_timeout", Value: "1s"},
	{Name: "statement_timeout", Value: "2s"},
	{Name: "lock_timeout", Value: "1s"},
	{Name: "default_transaction_isolation", Value: "read committed"},
	{Name: "default_transaction_read_only", Value: "off"},
}, conn.PlanSettings...)

// announcerCallLimit bounds a statement of an announcer, in case its server is out of reach.
const announcerCallLimit = 3 * time.Second

// shutdownLimit is how long an announcer whose process stops waits for transactions that may have been silent.
const shutdownLimit = 500 * time.Millisecond

// announcing is an announcer that is awake.
type announcing struct {
	*announcer
	conn  *pgx.Conn
	lanes []*announcedLane
	notes []*announcedLane // one for each fold, by the due times of its notes

	// All rows of silent transactions that are due before the horizon, less lookBack, have become visible. since is
	// when the pending transactions were first seen. Once none of them is left, the horizon moves to since.
	horizon, since time.Time // by the database's clock
	pending        []string  // the silent transactions that the horizon waits for
	blind          bool      // it cannot look, see standsAside

	nextBack, nextSample, nextBeat time.Time

	looks, sent int
}

// An announcedLane is a lane in which an announcer looks for rows.
type announcedLane struct {
	values []string
	cursor position  // the last row seen, by due time
	stays  time.Time // the due time of the last ready row that was announced although it was behind the cursor
	again  time.Time // when it may be announced again
	active time.Time // when something was last found
}

// begin prepares the session and takes the lock, unless another session has it. It does not take the lock through a
// pooler, where a session may lose its locks or leave them to other clients. Nor does it with a role that sees only a
// part of the rows or notes, and so cannot announce all of them, or if a first look fails.
func (d *announcing) begin(ctx context.Context) (taken bool, err error) {
	pid := strconv.FormatUint(uint64(d.conn.PgConn().PID()), 10)
	take := "SELECT CASE WHEN pg_backend_pid() = " + pid + " AND NOT (" + d.table.hides() + ")" +
		" THEN pg_try_advisory_lock(" + d.table.spec.announcing().Lock() + ") ELSE false END"
	set := func(name, value string) string {
		return "pg_catalog.set_config('" + name + "', '" + value + "', false)"
	}
	settings := "SELECT " + conn.Each(announcerSettings, set) + " WHERE " + postgres.FitSession
	if err := d.exec(ctx, settings); err != nil {
		return false, explain(err)
	}
	if err := d.tryLook(ctx); err != nil {
		return false, err
	}
	for range 20 { // a producer that tests the lock holds it for microseconds
		err = d.within(ctx, func(ctx context.Context) error { return d.conn.QueryRow(ctx, take).Scan(&taken) })
		if err != nil || taken {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil || !taken {
		return false, err
	}
	return true, d.takeOver(ctx)
}

// tryLook runs the statements of a look, in no lane and beyond no note: they read nothing, and fail as a look would.
func (d *announcing) tryLook(ctx context.Context) error {
	tries := []conn.Statement{d.table.statements().announceLook}
	if len(d.table.spec.Folds) > 0 {
		tries = append(tries, d.table.statements().announceNotes)
	}
	for _, s := range tries {
		args := make([]any, len(s.Params))
		for i := range args {
			args[i] = "{}"
		}
		err := d.within(ctx, func(ctx context.Context) error {
			_, err := d.conn.Exec(ctx, s.Text, args...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeOver tells listeners to look at everything, because an earlier announcer may have died. Transactions that were
// silent because of that announcer may still be open. They may be older than any horizon of this announcer, so the
// horizon is 1970 until they have ended.
func (d *announcing) takeOver(ctx context.Context) (err error) {
	if d.since, d.pending, err = d.silent(ctx); err != nil {
		return err
	}
	d.horizon = d.since
	if len(d.pending) > 0 {
		d.horizon = time.UnixMicro(0)
	}
	if len(d.table.spec.Lanes) == 0 {
		d.lanes = []*announcedLane{{cursor: position{due: d.since.Add(-lookBack)}}}
	}
	for range d.table.spec.Folds {
		d.notes = append(d.notes, &announcedLane{cursor: position{due: d.since.Add(-lookBack)}})
	}
	d.nextBeat = time.Now().Add(beatEvery)
	return d.announceFrom(ctx, time.UnixMicro(0))
}

// within bounds the time of one of its statements. It is not cancelled with ctx, because an announcer that stops still
// has work to finish.
func (d *announcing) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announcerCallLimit)
	defer cancel()
	return f(ctx)
}

// announceWhileBusy announces until little has been found for a while, or ctx is cancelled.
func (d *announcing) announceWhileBusy(ctx context.Context) error {
	window, found := time.Now(), 0
	for ctx.Err() == nil {
		start := time.Now()
		if start.Sub(window) > sleepWindow {
			if found < int(sleepBelow*sleepWindow/time.Second) {
				return nil
			}
			window, found = start, 0
		}
		news, err := d.round(ctx)
		if err != nil {
			return err
		}
		if news {
			found++
		}
		d.rest(ctx, start, lookEvery)
	}
	return nil
}

// restAfter is how long an announcer rests after a look that took so long, if it looks that often.
func restAfter(took, every time.Duration) time.Duration {
	return min(max(every-took, lookRest*took), longestLookRest)
}

// rest sleeps until the next look.
func (d *announcing) rest(ctx context.Context, start time.Time, every time.Duration) {
	timer := time.NewTimer(restAfter(time.Since(start), every))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// fallAsleep releases the lock, so that transactions notify again. It goes on announcing until all transactions that
// may have seen the lock taken have ended; if it is blind, it announces only then. Its last announcement moves every
// listener back to what these transactions may have written, and makes workers ask again when the next row is due.
func (d *announcing) fallAsleep(ctx context.Context) error {
	err := d.exec(ctx, "SELECT pg_advisory_unlock("+d.table.spec.announcing().Lock()+")")
	if err != nil {
		return err
	}
	_, d.pending, err = d.silent(ctx)
	begun, pause := time.Now(), lookEvery
	for err == nil && len(d.pending) > 0 && (ctx.Err() == nil || time.Since(begun) < shutdownLimit) {
		start := time.Now()
		if !d.blind {
			_, err = d.round(ctx)
		}
		if err == nil && !start.Before(d.nextSample) {
			_, err = d.sample(ctx)
		}
		pause = min(pause*11/10+time.Microsecond, sampleEvery)
		d.rest(context.WithoutCancel(ctx), start, pause)
	}
	switch {
	case err != nil:
		return err
	case d.blind: // rows that it has not found may be older than the horizon
		return d.announceFrom(ctx, time.UnixMicro(0))
	}
	return d.announceAll(ctx)
}

// round looks once and announces what it finds. Now and then the look begins before the cursors.
func (d *announcing) round(ctx context.Context) (news bool, err error) {
	start := time.Now()
	if !start.Before(d.nextBeat) {
		d.nextBeat = start.Add(beatEvery)
		if err := d.announceAll(ctx); err != nil {
			return false, err
		}
	}
	if start.Before(d.nextBack) {
		return d.lookAtAll(ctx, false)
	}
	horizon := d.horizon
	if !start.Before(d.nextSample) {
		if horizon, err = d.sample(ctx); err != nil {
			return false, err
		}
	}
	if err := d.findLanes(ctx); err != nil {
		return false, err
	}
	news, err = d.lookAtAll(ctx, true)
	d.horizon = horizon // the rows of transactions that have ended were visible to this look
	d.nextBack = time.Now().Add(max(backEvery, backShare*time.Since(start)))
	return news, err
}

// sample asks which silent transactions are open. It returns the horizon that holds after one more look from the old
// one.
func (d *announcing) sample(ctx context.Context) (horizon time.Time, err error) {
	d.nextSample = time.Now().Add(sampleEvery)
	now, silent, err := d.silent(ctx)
	if err != nil {
		return d.horizon, err
	}
	d.pending = slices.DeleteFunc(d.pending, func(t string) bool { return !slices.Contains(silent, t) })
	if len(d.pending) > 0 {
		return d.horizon, nil
	}
	horizon = d.since
	d.since, d.pending = now, silent
	return horizon, nil
}

// silent returns the open transactions that may be silent, and a time before it looked.
func (d *announcing) silent(ctx context.Context) (now time.Time, transactions []string, err error) {
	lock := d.table.spec.announcing().SilentLock()
	var micros int64
	var list string
	err = d.within(ctx, func(ctx context.Context) error {
		return d.conn.QueryRow(ctx,
			`SELECT (extract(epoch FROM now()) * 1000000)::bigint, coalesce(string_agg(l.virtualtransaction, ','), '')
			FROM pg_locks AS l
			WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
			  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
			  AND l.classid = (`+lock+` >> 32 & 4294967295)::oid AND l.objid = (`+lock+` & 4294967295)::oid`).Scan(&micros, &list)
	})
	if list != "" {
		transactions = strings.Split(list, ",")
	}
	return time.UnixMicro(micros), transactions, err
}

// findLanes adds lanes that have rows, and forgets lanes in which nothing has happened for ten seconds.
func (d *announcing) findLanes(ctx context.Context) error {
	if len(d.table.spec.Lanes) == 0 {
		return nil
	}
	now := time.Now()
	d.lanes = slices.DeleteFunc(d.lanes, func(l *announcedLane) bool { return now.Sub(l.active) > 10*time.Second })
	return d.within(ctx, func(ctx context.Context) error {
		rows, err := d.conn.Query(ctx, d.table.statements().announceLanes.Text)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var values []string
			if err := rows.Scan(&values); err != nil {
				return err
			}
			i := slices.IndexFunc(d.lanes, func(l *announcedLane) bool { return slices.Equal(l.values, values) })
			if i < 0 {
				i = len(d.lanes)
				d.lanes = append(d.lanes, &announcedLane{values: values,
					cursor: position{due: d.horizon.Add(-lookBack)}})
			}
			d.lanes[i].active = now
		}
		return rows.Err()
	})
}

// lookAtAll looks for rows, and for notes, whose folds may release rows.
func (d *announcing) lookAtAll(ctx context.Context, back bool) (news bool, err error) {
	d.looks++
	news, err = d.look(ctx, back)
	if err != nil || len(d.notes) == 0 {
		return news, err
	}
	noted, err := d.lookForNotes(ctx, back)
	return news || noted, err
}

// look announces the rows that have become due or visible beyond the cursors or, if back is set, beyond the horizon.
func (d *announcing) look(ctx context.Context, back bool) (news bool, err error) {
	if len(d.lanes) == 0 {
		return false, nil
	}
	var first time.Time
	err = d.within(ctx, func(ctx context.Context) error {
		rows, err := d.conn.Query(ctx, d.table.statements().announceLook.Text, d.lookArgs(back)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var place int
			var ready *int64
			var due int64
			var id string
			if err := rows.Scan(&place, &ready, &due, &id); err != nil {
				return err
			}
			last := position{due: time.UnixMicro(due)}
			if err := last.id.UnmarshalText([]byte(id)); err != nil {
				return err
			}
			fresh, announce := d.lanes[place-1].found(ready, last)
			news = news || fresh
			if announce {
				first = earliest(first, time.UnixMicro(*ready))
			}
		}
		return rows.Err()
	})
	if err == nil && !first.IsZero() {
		err = d.announce(ctx, strconv.FormatInt(first.UnixMicro(), 10))
	}
	return news, err
}

func (d *announcing) lookArgs(back bool) []any {
	columns := map[string][]string{}
	for _, l := range d.lanes {
		after := d.after(l, back)
		columns["after_due"] = append(columns["after_due"], after.bound())
		columns["after_id"] = append(columns["after_id"], after.id.String())
		for i, c := range d.table.view.Lanes {
			columns["lane_"+c.Name] = append(columns["lane_"+c.Name], l.values[i])
		}
	}
	var args []any
	for _, p := range d.table.statements().announceLook.Params {
		args = append(args, conn.ArrayLiteral(columns[p]))
	}
	return args
}

// after is where a look begins: at the cursor, or further back.
func (d *announcing) after(l *announcedLane, back bool) position {
	if h := (position{due: d.horizon.Add(-lookBack)}); back && h.before(l.cursor) {
		return h
	}
	return l.cursor
}

// lookForNotes announces notes as look announces rows.
func (d *announcing) lookForNotes(ctx context.Context, back bool) (news bool, err error) {
	bounds := make([]string, len(d.notes))
	for i, l := range d.notes {
		bounds[i] = d.after(l, back).bound()
	}
	var first time.Time
	err = d.within(ctx, func(ctx context.Context) error {
		rows, err := d.conn.Query(ctx, d.table.statements().announceNotes.Text, conn.ArrayLiteral(bounds))
		if err != nil {
			return err
		}
		defer rows.Close()
		for i := 0; rows.Next(); i++ {
			var due, last *int64
			if err := rows.Scan(&due, &last); err != nil {
				return err
			}
			if due == nil || last == nil {
				continue
			}
			fresh, announce := d.notes[i].found(due, position{due: time.UnixMicro(*last)})
			news = news || fresh
			if announce {
				first = earliest(first, time.UnixMicro(*due))
			}
		}
		return rows.Err()
	})
	if err == nil && !first.IsZero() {
		err = d.announce(ctx, announce.PayloadNote+strconv.FormatInt(first.UnixMicro(), 10))
	}
	return news, err
}

// found moves the cursor to the last row that is due. fresh reports whether the first ready row lies beyond the old
// cursor, and announce whether to announce it. A ready row behind the cursor that no worker claims is announced only
// every againEvery.
func (l *announcedLane) found(ready *int64, last position) (fresh, announce bool) {
	now := time.Now()
	before := l.cursor
	if before.before(last) {
		l.cursor = last
	}
	if ready == nil {
		return false, false
	}
	l.active = now
	first := time.UnixMicro(*ready)
	if first.After(before.due) {
		return true, true
	}
	if first.Equal(l.stays) && now.Before(l.again) {
		return false, false
	}
	l.stays, l.again = first, now.Add(againEvery)
	return false, true
}

// announceAll announces everything that silent transactions may have written.
func (d *announcing) announceAll(ctx context.Context) error {
	return d.announceFrom(ctx, d.horizon.Add(-lookBack))
}

// announceFrom moves all listeners back to a time.
func (d *announcing) announceFrom(ctx context.Context, due time.Time) error {
	payload := strconv.FormatInt(max(due.UnixMicro(), 0), 10)
	err := d.announce(ctx, payload)
	if err == nil && len(d.notes) > 0 {
		err = d.announce(ctx, announce.PayloadNote+payload)
	}
	return err
}

func (d *announcing) announce(ctx context.Context, payload string) error {
	d.sent++
	d.table.telemetry.Announced(ctx)
	return d.exec(ctx, "SELECT "+d.table.spec.announcing().Notify("'"+payload+"'"))
}

func (d *announcing) exec(ctx context.Context, sql string) error {
	return d.within(ctx, func(ctx context.Context) error {
		_, err := d.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}
