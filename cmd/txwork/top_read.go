package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

// Bounds on what top reads.
const (
	topRated    = 10_000 // written, and ended, within the window
	topSample   = 1000   // dead letters and rows to be retried, to group errors
	topGroups   = 8      // claims, errors and groups of sessions, and topics of each table; the others are counted
	topWindow   = 10 * time.Second
	topHistory  = 5 * time.Minute
	topErrorsOf = time.Hour

	// topStatement is how long each statement may take.
	topStatement = 500 * time.Millisecond
)

// A topFrame is what top shows at one moment. docs/top.md shows its JSON.
type topFrame struct {
	Schema   string        `json:"schema"`
	Database string        `json:"database"`
	At       time.Time     `json:"at"`           // by the clock of the server
	Took     float64       `json:"took_seconds"` // how long it took to read the frame
	Queues   []topQueue    `json:"queues"`       // tables, each followed by its queues, topics or consumers
	Topics   []topTopic    `json:"topics"`       // those that are paused, rest or have rows aside
	Logs     []operate.Log `json:"logs"`         // outboxes that are a log: at most one
	Leases   []topLease    `json:"leases"`       // claims that hold rows, those that expire first at the top
	Sessions []topSession  `json:"sessions"`     // by program, role and machine
	Errors   []topError    `json:"errors"`       // the most frequent first
	More     topMore       `json:"more"`         // how many others there are
	Skipped  []topSkipped  `json:"skipped"`      // what could not be read in time

	counted  map[string]topCount           // by table, for the rates of the next frame
	happened map[string]survey.HistoryLine // by table, before the first frame
}

// A topQueue is a table, or one of its queues, topics or consumers. A table's counts are those of all of them.
type topQueue struct {
	operate.Part
	Of *topWhole `json:"whole,omitempty"` // what is known only of the table as a whole
}

// A topWhole is what is known of a table, and not of its parts.
type topWhole struct {
	Waiting       int64    `json:"waiting"`                // rows that are held back
	OldestWaiting float64  `json:"oldest_waiting_seconds"` // how long the first of them has waited
	DeadLetters   int64    `json:"dead_letters"`           // number of dead letters
	RecentDead    int64    `json:"dead_letters_last_hour"` // rows that became dead letters within an hour
	Arrived       float64  `json:"arrived_per_second"`     // rows written in the last seconds
	Claimed       *float64 `json:"claimed_per_second"`     // null in the first frame, unless the table history knows it
	// null in the first frame of a table whose rows are deleted when they are done, unless the table history knows it
	Settled *float64 `json:"settled_per_second"`

	MoreWaiting bool `json:"waiting_at_least"`                // there may be more waiting rows
	MoreDead    bool `json:"dead_letters_at_least"`           // there may be more dead letters
	MoreRecent  bool `json:"dead_letters_last_hour_at_least"` // there may be more dead letters of the last hour
	MoreArrived bool `json:"arrived_at_least"`                // more rows may have arrived a second
	MoreSettled bool `json:"settled_at_least"`                // more rows may have been claimed and settled a second
}

// A topLease is a claim that holds rows: one call of a worker's.
type topLease struct {
	Table   string          `json:"table"`
	Owner   string          `json:"owner_token"`             // owner token of one claim
	Process *operate.Holder `json:"process,omitempty"`       // its process, if that says that it runs
	About   string          `json:"about"`                   // topic or kind of one of its rows
	Rows    int64           `json:"rows"`                    // rows that it holds
	Expired int64           `json:"expired"`                 // of those, with an expired lease
	Longest float64         `json:"longest_running_seconds"` // how long one of them has been in progress; 0 until its lease has been renewed
	AtLeast bool            `json:"at_least"`                // it may hold more rows
	Ends    float64         `json:"ends_in_seconds"`         // when the first of its leases ends; negative once it has expired
}

// A topSession is the sessions of one program, role and machine.
type topSession struct {
	Application       string  `json:"application"` // the application_name
	Role              string  `json:"role"`
	Client            string  `json:"client"`                     // address of the machine
	Sessions          int64   `json:"sessions"`                   // how many there are
	Active            int64   `json:"active"`                     // sessions that run a statement
	Waiting           int64   `json:"waiting_for_locks"`          // sessions that wait for a lock
	InTransaction     int64   `json:"idle_in_transaction"`        // sessions that are idle in a transaction
	OldestTransaction float64 `json:"oldest_transaction_seconds"` // how long the oldest transaction has been open
	Silent            float64 `json:"silent_seconds"`             // time since the last activity of any of them
}

// A topError is rows of one topic or kind with the same error; … stands for numbers and ids in it.
type topError struct {
	Table    string  `json:"table"`
	By       string  `json:"by,omitempty"`           // the column that name is a value of
	Name     string  `json:"name,omitempty"`         // topic or kind
	Error    string  `json:"error"`                  // with … instead of numbers and ids
	Failed   int64   `json:"dead_letters_last_hour"` // rows that became dead letters within an hour
	Retrying int64   `json:"retrying"`               // rows that are to be retried
	AtLeast  bool    `json:"at_least"`               // there may be more dead letters of the last hour
	MoreLive bool    `json:"retrying_at_least"`      // there may be more rows that are to be retried
	Latest   float64 `json:"latest_seconds"`         // how long ago the latest of them was
	ID       string  `json:"id"`                     // id of one of them
}

// A topMore is what a frame leaves out, because it has only the first of them.
type topMore struct {
	Queues   topRest `json:"queues"`   // queues, topics or consumers below tables
	Topics   topRest `json:"topics"`   // topics of all tables
	Leases   topRest `json:"leases"`   // claims that hold rows
	Sessions topRest `json:"sessions"` // groups of sessions
	Errors   topRest `json:"errors"`   // groups of errors
}

// A topRest is how many there are beside those in the frame.
type topRest struct {
	Number  int64 `json:"number"`   // beside those in the frame
	AtLeast bool  `json:"at_least"` // there may be more, since not everything was read
}

func (r *topRest) add(number int64, atLeast bool) {
	r.Number, r.AtLeast = r.Number+number, r.AtLeast || atLeast
}

// A topSkipped is what could not be read in time.
type topSkipped struct {
	What   string `json:"what"`   // what could not be read
	Reason string `json:"reason"` // why it could not be read
}

// A topCount holds the counters whose differences give the rates.
type topCount struct{ running, deleted int64 }

// A topReader reads frames.
type topReader struct {
	db     *database
	limit  time.Duration // statement timeout
	before *topFrame
}

// read makes a frame. Parts that cannot be read are listed as skipped. An error means that nothing could be read.
func (r *topReader) read(ctx context.Context) (f *topFrame, err error) {
	err = survey.Reader{From: r.db.Pool, Limit: r.limit}.Together(ctx, func(reader survey.Reader) (err error) {
		f, err = r.readWith(ctx, reader)
		return err
	})
	return f, err
}

func (r *topReader) readWith(ctx context.Context, reader survey.Reader) (*topFrame, error) {
	begun := time.Now()
	f, tables, err := r.begin(ctx, reader)
	if err != nil {
		return nil, err
	}
	if r.before == nil {
		f.before(ctx, reader, tables)
	}
	for i := range tables {
		if !tables[i].Schedule() {
			f.table(ctx, reader, &tables[i], r.before)
		}
	}
	f.log(ctx, reader)
	f.sessions(ctx, reader)
	f.trim()
	f.processes(ctx, reader)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.Took = time.Since(begun).Seconds()
	r.before = f
	return f, nil
}

// begin makes a frame whose tables are still to be read.
func (r *topReader) begin(ctx context.Context, reader survey.Reader) (f *topFrame, tables []survey.Facts, err error) {
	f = &topFrame{
		Schema: r.db.Schema, Queues: []topQueue{}, Topics: []topTopic{}, Leases: []topLease{}, Logs: []operate.Log{},
		Sessions: []topSession{}, Errors: []topError{}, Skipped: []topSkipped{},
		counted: map[string]topCount{},
	}
	err = reader.Read(ctx, func(tx pgx.Tx) (err error) {
		if err := tx.QueryRow(ctx, "SELECT current_database(), now()").Scan(&f.Database, &f.At); err != nil {
			return err
		}
		f.At = f.At.UTC()
		tables, err = survey.Tables(ctx, tx, r.db.Schema, operate.CountedRows)
		for i := range tables {
			tables[i].DueRows = operate.CountedRows
		}
		return err
	})
	if err == nil && len(tables) == 0 {
		err = noTables(r.db.Schema)
	}
	return f, tables, err
}

// trim keeps the leases that expire first and the errors with the most rows, and counts the others.
func (f *topFrame) trim() {
	slices.SortStableFunc(f.Leases, func(a, b topLease) int { return compare(a.Ends, b.Ends) })
	f.Leases = first(f.Leases, &f.More.Leases)
	slices.SortStableFunc(f.Errors, func(a, b topError) int {
		return cmp.Or(compare(b.Failed, a.Failed), compare(b.Retrying, a.Retrying))
	})
	f.Errors = first(f.Errors, &f.More.Errors)
}

// first returns the first lines, and adds the others to those that were not read.
func first[T any](all []T, rest *topRest) []T {
	n := min(len(all), topGroups)
	rest.add(int64(len(all)-n), false)
	return all[:n]
}

func compare[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// skip records what could not be read, and tells whether there was an error.
func (f *topFrame) skip(what string, err error) bool {
	if err != nil {
		f.Skipped = append(f.Skipped, topSkipped{what, harmless(err.Error())})
	}
	return err != nil
}

// table adds everything about one table to the frame.
func (f *topFrame) table(ctx context.Context, r survey.Reader, t *survey.Facts, before *topFrame) {
	parts, cut, err := operate.Parts(ctx, r, t)
	if f.skip("queues of "+t.Name, err) {
		for _, rest := range []*topRest{&f.More.Queues, &f.More.Topics, &f.More.Leases, &f.More.Errors} {
			rest.AtLeast = true
		}
		return // whatever prevents this statement would prevent the others on this table too
	}
	f.More.Queues.add(0, cut)
	whole := topQueue{operate.Whole(t, parts), &topWhole{}}
	f.whole(ctx, r, t, &whole, before)
	if t.Filtered {
		f.skip("some rows of "+t.Name, errFiltered)
		f.More.Queues.AtLeast = true
		whole.Of.partly()
	}
	f.Queues = append(f.Queues, whole)
	if len(parts) > 1 || len(parts) == 1 && parts[0].Name != "" {
		for _, p := range parts {
			f.Queues = append(f.Queues, topQueue{Part: p})
		}
	}
	f.topics(ctx, r, t)
	f.leases(ctx, r, t, whole.AtLeast)
	f.errors(ctx, r, t, whole.AtLeast || whole.Ready+whole.InProgress+whole.Scheduled >= topSample)
}

// errFiltered is why figures of a table are lower bounds, whatever was read.
var errFiltered = errors.New("row-level security hides them from the role; look as the owner of the tables, or as a role " +
	"with BYPASSRLS")

// partly marks all counts as lower bounds.
func (w *topWhole) partly() {
	w.MoreWaiting, w.MoreDead, w.MoreRecent, w.MoreArrived, w.MoreSettled = true, true, true, true, true
}

func (f *topFrame) leases(ctx context.Context, r survey.Reader, t *survey.Facts, more bool) {
	claims, err := survey.Claims(ctx, r, t, topGroups)
	failed := f.skip("leases of "+t.Name, err)
	f.More.Leases.add(0, more || failed)
	for i, c := range claims {
		if i == 0 {
			f.More.Leases.add(c.Claims-int64(len(claims)), false)
		}
		about := c.Label
		if c.Labels > 1 {
			about += fmt.Sprintf(" and %d more", c.Labels-1)
		}
		f.Leases = append(f.Leases, topLease{t.Name, c.Owner, nil, about, c.Rows, c.Expired, max(c.Longest, 0), more,
			c.Ends})
	}
}

// processes tells which processes hold the leases.
func (f *topFrame) processes(ctx context.Context, r survey.Reader) {
	var tokens []string
	for _, l := range f.Leases {
		tokens = append(tokens, l.Owner)
	}
	if len(tokens) == 0 {
		return
	}
	found, err := survey.Processes(ctx, r, f.Schema, tokens...)
	f.skip("processes", err)
	for i := range f.Leases {
		f.Leases[i].Process = operate.HolderOf(found, f.Leases[i].Owner)
	}
}

func (f *topFrame) errors(ctx context.Context, r survey.Reader, t *survey.Facts, more bool) {
	groups, err := survey.GroupedErrors(ctx, r, t, topErrorsOf, topSample, topSample)
	unread := f.skip("errors of "+t.Name, err)
	failed := int64(0)
	for _, e := range groups {
		failed += e.Failed
	}
	f.More.Errors.add(0, unread || more || failed >= topSample)
	for i, e := range groups {
		if i == 0 {
			f.More.Errors.add(e.Groups-int64(len(groups)), false)
		}
		f.Errors = append(f.Errors, topError{t.Name, t.LabelName(), e.Label, e.Error, e.Failed, e.Retrying,
			t.Filtered || failed >= topSample, more, e.Latest, e.ID})
	}
}

// whole reads what is known only of a table as a whole.
func (f *topFrame) whole(ctx context.Context, r survey.Reader, t *survey.Facts, q *topQueue, before *topFrame) {
	held, err := survey.HeldRows(ctx, r, t, operate.CountedRows)
	if !f.skip("waiting rows of "+t.Name, err) {
		q.Of.Waiting, q.Of.OldestWaiting, q.Of.MoreWaiting = held.Rows, held.Oldest, held.More
	}
	dead, err := survey.CountDeadLetters(ctx, r, t, operate.CountedRows, topErrorsOf)
	if !f.skip("dead letters of "+t.Name, err) {
		q.Of.DeadLetters, q.Of.RecentDead = dead.Rows, dead.Recent
		q.Of.MoreDead, q.Of.MoreRecent = dead.More, dead.RecentMore()
	}
	f.rates(ctx, r, t, q, before)
}

// before reads what the history knows of the last minutes, for the rates of the first frame.
func (f *topFrame) before(ctx context.Context, r survey.Reader, tables []survey.Facts) {
	h := survey.HistoryRange{Lane: new(string), Length: topHistory, Step: time.Minute}
	for _, t := range tables {
		if !t.Filtered { // it would be about rows that the role does not see
			h.Tables = append(h.Tables, t.Name)
		}
	}
	lines, _, err := survey.History(ctx, r, f.Schema, h)
	f.skip("history", err)
	f.happened = map[string]survey.HistoryLine{}
	for _, l := range lines {
		f.happened[l.Table] = l
	}
}

// rates adds the rates of the last seconds, and those that come from the difference to the frame before.
func (f *topFrame) rates(ctx context.Context, r survey.Reader, t *survey.Facts, q *topQueue, before *topFrame) {
	rates, err := survey.RatesOver(ctx, r, t, topWindow, topRated)
	if f.skip("rates of "+t.Name, err) {
		return
	}
	count := topCount{q.InProgress, t.Deleted}
	f.counted[t.Name] = count
	q.Of.Arrived = float64(rates.Arrived) / topWindow.Seconds()
	q.Of.MoreArrived, q.Of.MoreSettled = rates.MoreArrived, rates.MoreEnded
	settled := float64(rates.Ended) / topWindow.Seconds()
	if !t.Deletes {
		q.Of.Settled = &settled
	}
	last, since := f.since(before, t.Name)
	if since <= 0 {
		f.ratesOfHistory(t, q.Of)
		return
	}
	if t.Deletes {
		settled += max(float64(count.deleted-last.deleted), 0) / since
		q.Of.Settled = &settled
	}
	claimed := max(settled+float64(count.running-last.running)/since, 0)
	q.Of.Claimed = &claimed
}

// ratesOfHistory adds the rates of the last minutes that no difference of frames tells yet.
func (f *topFrame) ratesOfHistory(t *survey.Facts, w *topWhole) {
	claimed, settled, known := f.happened[t.Name].Rates()
	if !known {
		return
	}
	w.Claimed = &claimed
	if t.Deletes {
		w.Settled = &settled
	}
}

// since returns a table's counts in the frame before, and how many seconds ago that was: 0 if it was not in it.
func (f *topFrame) since(before *topFrame, table string) (topCount, float64) {
	if before == nil {
		return topCount{}, 0
	}
	last, known := before.counted[table]
	if !known {
		return topCount{}, 0
	}
	return last, f.At.Sub(before.At).Seconds()
}

func (f *topFrame) sessions(ctx context.Context, r survey.Reader) {
	all, err := survey.AllSessions(ctx, r, topGroups)
	f.More.Sessions.add(0, f.skip("sessions", err))
	for i, s := range all {
		if i == 0 {
			f.More.Sessions.add(s.Groups-int64(len(all)), false)
		}
		f.Sessions = append(f.Sessions, topSession{s.Application, s.Role, s.Client, s.Sessions, s.Active, s.Waiting,
			s.InTransaction, s.OldestTransaction, s.Silent})
	}
}
