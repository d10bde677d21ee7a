package webui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

// A deed is a verb as the pages offer it.
type deed struct {
	Name   string // of the verb
	Label  string // on the button
	Means  string // what it does
	Reason bool   // it takes a reason
	Danger bool   // it cannot be undone
	Moves  bool   // it takes a time, and rows that are named only
}

// deeds are the verbs, in the order of the buttons.
var deeds = []deed{
	{Name: "redrive", Label: "Redrive", Means: "Ready again, with all attempts."},
	{Name: "run_now", Label: "Run now", Means: "Due now."},
	{Name: "reschedule", Label: "Reschedule", Means: "Due at another time.", Moves: true},
	{Name: "unblock", Label: "Unblock", Means: "Releases what waits behind, in the same key."},
	{Name: "cancel", Label: "Cancel", Means: "Not run any more; what is in progress is told so.", Reason: true, Danger: true},
	{Name: "discard", Label: "Discard", Means: "Given up, and kept as cancelled.", Reason: true, Danger: true},
	{Name: "delete", Label: "Delete", Means: "Gone for good.", Danger: true},
}

// deedsOf returns what can be done to rows in a state, of a table that may have ordered keys.
func deedsOf(state string, keyed bool) (all []deed) {
	for _, d := range deeds {
		if slices.Contains(operate.Verbs[d.Name].States, state) && (d.Name != "unblock" || keyed) {
			all = append(all, d)
		}
	}
	return all
}

// deed is the one that the address names.
func (r *request) deed() (d deed, v operate.Verb, err error) {
	for _, d := range deeds {
		if d.Name == r.PathValue("verb") {
			return d, operate.Verbs[d.Name], nil
		}
	}
	return d, v, notFound
}

// args are the arguments of a verb, from the form.
func (r *request) args(d deed) ([]any, error) {
	switch {
	case d.Name == "redrive":
		return []any{r.user.Name}, nil
	case d.Reason:
		reason := r.field("reason")
		if reason == "" {
			reason = "by " + r.user.Name + " on the dashboard"
		}
		return []any{reason}, nil
	case d.Moves:
		at, err := timeOf(r.field("at"), time.UTC) // as the page says
		return []any{at}, err
	}
	return nil, nil
}

// decide does what the form asks to rows, and returns the decisions about those that it has left as they were.
func (r *request) decide(ctx context.Context, t *workqueue.Table, d deed, v operate.Verb, ids []uuid.UUID) (
	left []operate.Decision, err error) {
	if v.Args, err = r.args(d); err != nil {
		return nil, err
	}
	db := r.acting()
	all, err := db.Decide(ctx, t, v, ids, r.among(t.Spec().Table))
	r.handler.forget()
	return slices.DeleteFunc(all, func(one operate.Decision) bool { return one.Changed || v.Settled(one.Result) }), err
}

// changeRow decides about one row.
func changeRow(ctx context.Context, r *request) (view, error) {
	d, v, err := r.deed()
	if err != nil {
		return view{}, err
	}
	t, known, err := r.table(ctx)
	if err != nil {
		return view{}, err
	}
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return view{}, notFound
	}
	if d.Name == "unblock" && !r.user.sees(t.Spec().Table) {
		return view{}, wholeKeys
	}
	left, err := r.decide(ctx, t, d, v, []uuid.UUID{id})
	if err != nil {
		return view{}, err
	}
	if len(left) > 0 {
		return view{}, problem{status: http.StatusConflict, Title: "The row was not " + v.Done, tables: known,
			Detail: left[0].Why + ".", Advice: "Look at the row as it is now."}
	}
	if d.Name == "delete" {
		return view{to: below("t", t.Spec().Table, string(workqueue.StateReady))}, nil
	}
	return view{to: below("t", t.Spec().Table, "row", id.String())}, nil
}

// wholeKeys refuses what releases the rows of a key, whose queues may be others.
var wholeKeys = problem{status: http.StatusForbidden, Title: "Keys are not shown by queue",
	Detail: "Rows of other queues may have this key, and would be released. Nothing was changed.",
	Advice: "Ask somebody who sees the whole table."}

// An askPage is what ask.html shows.
type askPage struct {
	deed
	Table   string
	State   stateLabel
	Filter  url.Values
	Order   operate.Order
	Encoded string // the order, for the form
	Back    string // the list, below the root
}

// askRows counts the rows in a state that match a filter, and asks.
func askRows(ctx context.Context, r *request) (view, error) {
	d, v, err := r.deed()
	if err != nil {
		return view{}, err
	}
	t, known, db, hidden, err := r.open(ctx)
	if err != nil {
		return view{}, err
	}
	label, ok := labelOf(r.PathValue("state"))
	if !ok || d.Moves || !slices.Contains(v.States, label.State) {
		return view{}, notFound
	}
	if len(hidden) > 0 {
		return view{}, partlySeen
	}
	o, err := r.options(t.Spec().Table, label.State)
	if err != nil {
		return view{}, err
	}
	p := askPage{deed: d, Table: t.Spec().Table, State: label, Filter: r.filterValues()}
	p.Order = operate.Order{Action: uuid.New(), States: []string{label.State}, Filter: o.Filter}
	if p.Order.Before, err = db.Now(ctx); err != nil {
		return view{}, err
	}
	n, more, err := db.Preview(ctx, t, p.Order.Selection())
	if err != nil {
		return view{}, err
	}
	p.Order.Found(n, more)
	text, err := json.Marshal(p.Order)
	p.Encoded, p.Back = string(text), below("t", p.Table, label.State)+string(encoded(p.Filter))
	return view{title: d.Label + " " + p.Table, page: "ask.html", data: p, tables: known}, err
}

// changeRows begins an action by a filter that was confirmed, and leads to its progress.
func changeRows(ctx context.Context, r *request) (view, error) {
	d, _, err := r.deed()
	if err != nil || d.Moves {
		return view{}, notFound
	}
	t, _, _, hidden, err := r.open(ctx)
	if err != nil {
		return view{}, err
	}
	if len(hidden) > 0 {
		return view{}, partlySeen
	}
	var o operate.Order
	if err := json.Unmarshal([]byte(r.form.Get("order")), &o); err != nil {
		return view{}, badForm
	}
	if o.Action, err = uuid.Parse(r.form.Get("action")); err != nil {
		return view{}, badForm
	}
	o.Table, o.Verb, o.Filter.Among = t.Spec().Table, d.Name, r.among(t.Spec().Table)
	if o.Args, err = r.args(d); err != nil {
		return view{}, err
	}
	if err := o.Check(); err != nil {
		return view{}, err
	}
	db := r.acting()
	now, err := db.Now(ctx)
	if err != nil {
		return view{}, err
	}
	if o.Before.After(now) { // it would change rows that nobody has counted
		return view{}, badForm
	}
	err = r.handler.carryOut(ctx, db, t, o, func(ctx context.Context) error { return db.BeginOrder(ctx, o) })
	if err != nil && !errors.Is(err, operate.ErrBegun) {
		return view{}, err
	}
	return view{to: below("audit", o.Action.String())}, nil
}
