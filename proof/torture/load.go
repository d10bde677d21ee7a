//go:build unix

package torture

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// records are what a run has recorded, by table and name.
type records struct {
	lab     *lab
	runs    map[written][]Handling
	asked   map[written][]Outcome
	handled [crews]map[string]int // handlers that ended without an error, by table
	keys    map[string]string     // of ordered messages, by name
	effects map[written][]Effect
	calls   []ClaimCall
	awake   int         // how often a process became an announcer
	broke   []time.Time // when the session of an announcer failed
	tracked bool        // the server records commit timestamps
	err     error       // error of reading the audit table
}

func (l *lab) load(ctx context.Context) (*records, error) {
	r := &records{lab: l, runs: map[written][]Handling{}, asked: map[written][]Outcome{}, keys: map[string]string{},
		effects: map[written][]Effect{}, handled: [crews]map[string]int{{}, {}}}
	if err := r.readJournals(); err != nil {
		return nil, err
	}
	if err := l.admin.QueryRow(ctx,
		"SELECT current_setting('track_commit_timestamp') = 'on'").Scan(&r.tracked); err != nil {
		return nil, err
	}
	return r, r.readEffects(ctx)
}

// A spot identifies a call of a handler in the journals.
type spot struct {
	app string
	run int64
}

func (r *records) readJournals() error {
	j := reading{records: r, open: map[spot]*Handling{}, owners: map[spot]written{},
		intents: map[int64]map[written]bool{}}
	err := readJournals(r.lab.dir, j.read)
	for s, run := range j.open { // their processes died before the end
		r.runs[j.owners[s]] = append(r.runs[j.owners[s]], *run)
	}
	for _, names := range j.intents {
		r.ask(maps.Keys(names), Maybe.String())
	}
	return err
}

// A reading adds the journals to the records, and keeps what has begun and not ended yet.
type reading struct {
	*records
	open    map[spot]*Handling
	owners  map[spot]written
	intents map[int64]map[written]bool // a transaction may write a name twice
}

func (j *reading) read(l line) {
	at := time.Unix(0, l.At)
	switch l.What {
	case lineStart, lineEnd:
		j.handling(l, at)
	case lineClaim:
		j.calls = append(j.calls, ClaimCall{Table: l.Table, App: l.App, Limit: l.Limit, Delivered: l.Changed})
	case lineAwake:
		j.awake++
	case lineBroke:
		j.broke = append(j.broke, at)
	case lineIntent:
		j.intent(l)
	case lineOutcome:
		j.ask(maps.Keys(j.intents[l.Run]), l.Result)
		delete(j.intents, l.Run)
	}
}

func (j *reading) handling(l line, at time.Time) {
	s := spot{l.App, l.Run}
	if l.What == lineStart {
		r := Handling{App: l.App, Attempt: l.Attempt, Mode: l.Mode, Start: at, Told: cmp.Or(l.Told, l.Name)}
		if l.Due != 0 {
			r.Due = time.Unix(0, l.Due)
		}
		j.open[s] = &r
		j.owners[s] = written{l.Table, l.Name}
		return
	}
	run := j.open[s]
	run.End, run.Result = at, l.Result
	if isLog := strings.HasPrefix(l.Table, logTable); !isLog && (l.Result == resultOK || l.Result == resultTx) {
		j.handled[crewOf(strings.HasPrefix(l.App, sqlPrefix))][l.Table]++
	}
	j.runs[j.owners[s]] = append(j.runs[j.owners[s]], *run)
	delete(j.open, s)
	delete(j.owners, s)
}

func (j *reading) intent(l line) {
	if j.intents[l.Run] == nil {
		j.intents[l.Run] = map[written]bool{}
	}
	j.intents[l.Run][written{l.Table, l.Name}] = true
	if l.Key != "" {
		j.keys[l.Name] = l.Key
	}
}

func (r *records) ask(names iter.Seq[written], outcome string) {
	for name := range names {
		for _, o := range []Outcome{Maybe, Committed, RolledBack} {
			if o.String() == outcome {
				r.asked[name] = append(r.asked[name], o)
			}
		}
	}
}

func (r *records) readEffects(ctx context.Context) error {
	rows, err := r.lab.admin.Query(ctx, "SELECT tbl, name, attempt, app, xid FROM "+r.lab.schema+".effects")
	if err != nil {
		return err
	}
	var w written
	var e Effect
	_, err = pgx.ForEachRow(rows, []any{&w.table, &w.name, &e.Attempt, &e.App, &e.XID}, func() error {
		r.effects[w] = append(r.effects[w], e)
		return nil
	})
	return err
}

// histories returns those of all rows, and of all names without a row. A read error is in err.
func (r *records) histories(ctx context.Context) iter.Seq[*History] {
	return func(yield func(*History) bool) {
		for h := range r.audited(ctx) {
			if !yield(r.complete(h)) {
				return
			}
		}
		for _, rest := range []iter.Seq[written]{maps.Keys(r.asked), maps.Keys(r.runs), maps.Keys(r.effects)} {
			for name := range rest {
				if !yield(r.complete(&History{Table: name.table, Name: name.name})) {
					return
				}
			}
		}
	}
}

// complete adds what the other records contain about the row, and removes it from them.
func (r *records) complete(h *History) *History {
	w := written{h.Table, h.Name}
	h.Asked, h.Runs, h.Effects = r.asked[w], r.runs[w], r.effects[w]
	if h.Table == "outbox" {
		h.AskedBy = r.keys[h.Name]
	}
	slices.SortFunc(h.Runs, func(a, b Handling) int { return a.Start.Compare(b.Start) })
	delete(r.asked, w)
	delete(r.runs, w)
	delete(r.effects, w)
	return h
}

// audited reads the audit table, row by row.
func (r *records) audited(ctx context.Context) iter.Seq[*History] {
	return func(yield func(*History) bool) {
		committed := "NULL::timestamptz"
		if r.tracked {
			committed = "pg_xact_commit_timestamp(xmin)"
		}
		rows, err := r.lab.admin.Query(ctx, render("histories.sql", map[string]any{
			"Schema": r.lab.schema, "Committed": committed, "Tables": auditedTables(r.lab.schema),
		}))
		if r.err = err; err != nil {
			return
		}
		defer rows.Close()
		r.err = r.eachHistory(rows, yield)
	}
}

func (r *records) eachHistory(rows pgx.Rows, yield func(*History) bool) error {
	var h *History
	for rows.Next() {
		next, c, err := r.scanChange(rows)
		if err != nil {
			return err
		}
		if h == nil || h.Table != next.Table || h.ID != next.ID {
			if h != nil && !yield(r.lab.dated(h)) {
				return nil
			}
			h = next
		}
		h.Changes = append(h.Changes, c)
	}
	if h != nil && rows.Err() == nil {
		yield(r.lab.dated(h))
	}
	return rows.Err()
}

func (r *records) scanChange(rows pgx.Rows) (*History, Change, error) {
	var h History
	var c Change
	var op string
	var fire, locked, committed *time.Time
	var server time.Time
	s := &c.New
	err := rows.Scan(&h.Table, &h.ID, &op, &c.OldStatus, &c.OldToken, &s.Status, &s.Waiting, &s.Cancelled, &s.Token,
		&s.Attempts, &s.Max, &s.Due, &fire, &locked, &s.Generation, &h.Name, &h.Key, &c.App, &c.XID, &c.TxnAt, &server,
		&committed, &c.Seq)
	if err != nil {
		return nil, c, err
	}
	c.Op = op[0]
	s.Fire, s.Locked = timeOrZero(fire), timeOrZero(locked)
	c.At, c.step = r.lab.ours(server, c.Seq)
	c.Committed = timeOrZero(committed)
	return &h, c, nil
}

func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
