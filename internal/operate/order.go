package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// An Order is a verb for all rows that a filter selected when they were counted. The audit has it with the action's
// beginning, so that whoever resumes it, in whichever process, does what was confirmed.
type Order struct {
	Action uuid.UUID `json:"-"` // new for each order
	Table  string    `json:"-"` // without its schema
	Verb   string    `json:"-"` // one of [Verbs]

	Args    []any     `json:"args,omitempty"` // of the verb
	States  []string  `json:"states"`         // of [Listings]
	Filter  Filter    `json:"filter"`
	Limit   int       `json:"limit,omitempty"` // 0: none
	Before  time.Time `json:"before"`          // when the rows were counted: what came later is left alone
	Counted int       `json:"counted"`
	AtLeast bool      `json:"at_least,omitempty"` // there were more, which were not counted
}

// Check refuses an order that the verb cannot carry out. It may have been read from a form, or from the table.
func (o Order) Check() error {
	v, ok := Verbs[o.Verb]
	switch {
	case !ok:
		return Refusal{"verb", fmt.Sprintf(" %q is unknown", o.Verb)}
	case len(o.States) == 0:
		return Refusal{"status", " is missing"}
	case o.Before.IsZero():
		return Refusal{"before", " is missing: nothing was counted"}
	}
	for _, state := range o.States {
		if !slices.Contains(v.States, state) {
			return Refusal{"status", fmt.Sprintf(" %q: such rows cannot be %s", state, v.Done)}
		}
	}
	return o.Filter.Check()
}

// Found notes how many rows were counted, or that there are more than that. Where rows do not say since when they have
// been in their state, the order may change others instead, but not more than were counted. If there are more, the
// operator has confirmed "at least" so many, so a limit would leave most of the rows that were meant: the order then
// changes all that were written before the count.
func (o *Order) Found(rows int, more bool) {
	if o.Counted, o.AtLeast = rows, more; !o.Dated() && !more {
		o.Limit = rows
	}
}

// Dated tells whether rows say since when they have been in the states of the order.
func (o Order) Dated() bool {
	return !slices.ContainsFunc(o.States, func(state string) bool { return Listings[state].since == "" })
}

// Selection is the rows of the order.
func (o Order) Selection() Selection {
	s := Selection{Filter: o.Filter, Limit: o.Limit}
	for _, state := range o.States {
		s.Parts = append(s.Parts, Listings[state])
	}
	return s.Before(o.Before)
}

func (o Order) act() Act { return Act{Verb: o.Verb, Target: o.Table, About: o} }

// Start begins an order, and carries it out.
func (d *DB) Start(ctx context.Context, t *workqueue.Table, o Order, changed func(rows int)) error {
	if err := o.Check(); err != nil {
		return err
	}
	if err := d.BeginOrder(ctx, o); err != nil {
		return err
	}
	return d.CarryOut(ctx, t, o, changed)
}

// BeginOrder notes an order, which [DB.CarryOut] carries out.
func (d *DB) BeginOrder(ctx context.Context, o Order) error { return d.Begin(ctx, o.Action, o.act()) }

// CarryOut does what is left of an order that has begun, oldest rows first, and notes its end. It calls changed after
// each batch, with the number of its rows. Batches change rows that are still as the verb wants them, so that an order
// can be carried out again, also at the same time by two processes. While it goes on, the audit says so.
func (d *DB) CarryOut(ctx context.Context, t *workqueue.Table, o Order, changed func(rows int)) error {
	defer d.sayAlive(ctx, o)()
	v := Verbs[o.Verb]
	v.Args = o.Args
	within, err := d.within(ctx, t, o.Filter.Among)
	batch := func(ids []uuid.UUID) (n int, err error) {
		err = d.Batch(ctx, o.Action, o.act(), func(tx workqueue.Tx) (int, error) {
			if err := d.refuseStopped(ctx, tx, o.Action); err != nil {
				return 0, err
			}
			all, err := within.decide(ctx, tx, t, v, ids)
			n = Changed(all)
			return n, err
		})
		if err == nil {
			changed(n)
		}
		return n, explained(t, v, err)
	}
	if err == nil {
		err = d.Each(ctx, t, o.Selection(), batch)
	}
	if errors.Is(err, ErrStopped) {
		return err // it is noted already
	}
	reason := ""
	if err != nil {
		reason = noted(err.Error(), maxReason)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		reason = "interrupted"
	}
	return cmp.Or(err, d.End(ctx, o.Action, o.act(), reason))
}

// aliveEvery is how often whoever carries out an action says so.
const aliveEvery = 5 * time.Second

// aliveFor is how long that counts: who has said nothing for longer is gone.
const aliveFor = 20 * time.Second

// sayAlive has the audit say that an action goes on, also while a batch waits or nothing is found, until the function
// that it returns is called. What cannot be said now is said at the next time.
func (d *DB) sayAlive(ctx context.Context, o Order) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(aliveEvery)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				_ = d.event(ctx, o.Action, eventAlive, Act{Verb: o.Verb, Target: o.Table})
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// maxReason is how many bytes are stored of an error.
const maxReason = 1000

// ErrStopped ends an order that somebody has stopped.
var ErrStopped = errors.New("somebody has stopped the action; the audit says who")

// refuseStopped looks, before each batch, whether somebody has stopped the action.
func (d *DB) refuseStopped(ctx context.Context, tx workqueue.Tx, action uuid.UUID) (err error) {
	query := "SELECT event FROM " + d.audit() + " WHERE action = $1::uuid AND event IN ('stopped', 'resumed', 'ended') " +
		"ORDER BY action DESC, id DESC LIMIT 1"
	event := ""
	if err := tx.Query(ctx, func(scan func(...any) error) error { return scan(&event) }, query, action); err != nil {
		return AuditError{err: err}
	}
	if event == eventStopped {
		return ErrStopped
	}
	return nil
}

// A Progress is how far an action has come, as the audit has it.
type Progress struct {
	Audited            // its first row
	Order    Order     // by a filter: what was ordered
	Changed  int       // rows so far
	Last     string    // its last event that says how it stands
	LastAt   time.Time // of its last row of the audit, other than those that say that it goes on
	AliveAt  time.Time // when whoever carries it out was heard of last
	Reason   string    // why it was stopped
	Now      time.Time
	ByFilter bool
}

// Stopped tells whether the action was stopped before its end.
func (p Progress) Stopped() bool { return p.Last == eventStopped }

// Ended tells whether there is nothing left to do.
func (p Progress) Ended() bool { return p.Last == eventDone || p.Last == eventEnded }

// Running tells whether somebody carries out the action.
func (p Progress) Running() bool {
	return !p.Ended() && !p.Stopped() && p.Now.Sub(p.AliveAt) < aliveFor
}

// Progress reads how far an action has come; nil if there is no such action.
func (d *DB) Progress(ctx context.Context, action uuid.UUID) (p *Progress, err error) {
	err = d.Read(ctx, func(tx pgx.Tx) error {
		found, err := structs[Audited](ctx, tx, `
			SELECT id, at, who, db_user, origin, action, event, verb, target, about::text AS about, rows FROM `+d.audit()+`
			WHERE action = $1 ORDER BY action, id LIMIT 1`, action)
		if err != nil || len(found) == 0 {
			return err
		}
		p = &Progress{Audited: found[0]}
		return tx.QueryRow(ctx, `
			SELECT s.rows, s.at, s.alive, e.event, coalesce(e.about->>'reason', ''), now()
			FROM (SELECT coalesce(sum(rows), 0) AS rows, max(at) FILTER (WHERE event <> 'alive') AS at, max(at) AS alive
					FROM `+d.audit()+` WHERE action = $1) AS s,
				(SELECT event, about FROM `+d.audit()+` WHERE action = $1
				AND event NOT IN ('batch', 'alive') -- one that was under way
				ORDER BY action DESC, id DESC LIMIT 1) AS e`, action).
			Scan(&p.Changed, &p.LastAt, &p.AliveAt, &p.Last, &p.Reason, &p.Now)
	})
	if err != nil || p == nil || p.Event != eventBegun {
		return p, err
	}
	err = json.Unmarshal([]byte(p.About), &p.Order)
	p.Order.Action, p.Order.Table, p.Order.Verb = action, p.Table, p.Verb
	p.ByFilter = err == nil && p.Order.Check() == nil
	if p.Order.Limit > 0 { // what is left of it
		if p.Order.Limit -= p.Changed; p.Order.Limit <= 0 {
			p.Last = eventEnded // which may not have been noted
		}
	}
	return p, nil
}

// Stop stops an action, whoever carries it out, after the batch that it is at.
func (d *DB) Stop(ctx context.Context, p *Progress) error {
	return d.event(ctx, p.Action, eventStopped, Act{Verb: p.Verb, Target: p.Table})
}

// Resume lets an action that was stopped go on; [DB.CarryOut] carries it out.
func (d *DB) Resume(ctx context.Context, p *Progress) error {
	return d.event(ctx, p.Action, eventResumed, Act{Verb: p.Verb, Target: p.Table})
}
