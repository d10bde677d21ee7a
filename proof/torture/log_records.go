//go:build unix

package torture

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// takeLog removes what is about the log from the records, and returns it.
func (r *records) takeLog() (asked map[string][]Outcome, runs map[string]map[string][]Handling) {
	asked, runs = map[string][]Outcome{}, map[string]map[string][]Handling{}
	for w, outcomes := range r.asked {
		if w.table == logTable {
			asked[w.name] = outcomes
			delete(r.asked, w)
		}
	}
	for w, handled := range r.runs {
		if name, of := strings.CutPrefix(w.table, logTable+" "); of {
			if runs[name] == nil {
				runs[name] = map[string][]Handling{}
			}
			runs[name][w.name] = handled
			delete(r.runs, w)
		}
	}
	return asked, runs
}

// log reads the records of the log.
func (r *records) log(ctx context.Context, stalled bool) (l LogRecord, err error) {
	asked, runs := r.takeLog()
	l = LogRecord{Asked: asked, Stalled: stalled}
	of := map[string]*SubscriptionRecord{}
	for _, s := range subscriptions {
		topics := []string{topicKeyed}
		if s.Topics == nil {
			topics = nil
		}
		of[s.Name] = &SubscriptionRecord{Name: s.Name, Lanes: int64(s.Lanes), Topics: topics, Runs: runs[s.Name],
			Parked: map[string][]ParkedChange{}}
	}
	steps := []func() error{
		func() error { return r.readMessages(ctx, &l) },
		func() error { return r.readMoves(ctx, of) },
		func() error { return r.readParked(ctx, of) },
		func() error { return r.readLosses(ctx, of) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return l, err
		}
	}
	for _, s := range subscriptions {
		if known := of[s.Name]; len(known.Moves) > 0 { // one that was never made has none
			l.Subscriptions = append(l.Subscriptions, known)
		}
	}
	return l, nil
}

// each calls do for each row of a query.
func (r *records) each(ctx context.Context, query string, into []any, do func()) error {
	rows, err := r.lab.admin.Query(ctx, strings.ReplaceAll(query, "@", r.lab.schema))
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		do()
		return nil
	})
	return err
}

func (r *records) readMessages(ctx context.Context, l *LogRecord) error {
	var m LogMessage
	return r.each(ctx, `SELECT seq, id::text, coalesce(key, ''), topic, created_at,
		hashtextextended(coalesce(key, id::text), 0) FROM @.log_written ORDER BY seq`,
		[]any{&m.Seq, &m.ID, &m.Key, &m.Topic, &m.Created, &m.Hash}, func() { l.Messages = append(l.Messages, m) })
}

func (r *records) readMoves(ctx context.Context, of map[string]*SubscriptionRecord) error {
	var name string
	var m Move
	var until *time.Time
	return r.each(ctx, `SELECT subscription, lane, app, at, coalesce(token::text, ''), until, done, coalesce(page, 0),
		tick, coalesce(upto, 0), attempts FROM @.log_moved ORDER BY n`,
		[]any{&name, &m.Lane, &m.App, &m.At, &m.Token, &until, &m.Done, &m.Page, &m.Tick, &m.Upto, &m.Attempts},
		func() {
			m.Until = timeOrZero(until)
			of[name].Moves = append(of[name].Moves, m)
		})
}

func (r *records) readParked(ctx context.Context, of map[string]*SubscriptionRecord) error {
	var name, id, op string
	var p ParkedChange
	return r.each(ctx, `SELECT subscription, message_id::text, op::text, app, coalesce(old_status, -1), status, attempts
		FROM @.log_parked ORDER BY n`, []any{&name, &id, &op, &p.App, &p.OldStatus, &p.Status, &p.Attempts}, func() {
		p.Op = op[0]
		of[name].Parked[id] = append(of[name].Parked[id], p)
	})
}

func (r *records) readLosses(ctx context.Context, of map[string]*SubscriptionRecord) error {
	var name string
	var l Loss
	return r.each(ctx, `SELECT subscription, lane, messages, oldest, newest FROM @.outbox_log_loss ORDER BY at`,
		[]any{&name, &l.Lane, &l.Messages, &l.Oldest, &l.Newest}, func() {
			of[name].Losses = append(of[name].Losses, l)
		})
}
