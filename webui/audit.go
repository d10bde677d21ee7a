package webui

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

// An auditPage is what audit.html shows.
type auditPage struct {
	*operate.AuditPage
	Filter url.Values
	Form   filterForm
	Pager  pager
}

// auditFilters are the filters in the address of the audit.
var auditFilters = []filterField{{"who", "Who", "", ""}, {"verb", "What", "", "such as redrive"},
	{"table", "Table", "", ""}, {"newer", "Newer than", "", "such as 1h or 7d"}}

// audit lists what operators did, the latest first.
func audit(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	p := auditPage{Filter: url.Values{}}
	for _, f := range auditFilters {
		if f.Value = strings.TrimSpace(r.query.Get(f.Name)); f.Value != "" {
			p.Filter.Set(f.Name, f.Value)
		}
		p.Form.Fields = append(p.Form.Fields, f)
	}
	p.Form.Action, p.Form.Given = "audit", len(p.Filter) > 0
	f := operate.AuditFilter{Who: p.Filter.Get("who"), Verb: p.Filter.Get("verb"), Table: p.Filter.Get("table"),
		Tables: r.user.whole()}
	if text := p.Filter.Get("newer"); text != "" {
		age, err := input.Duration(text)
		if err != nil {
			return view{}, operate.Refusal{Field: "newer",
				Problem: " " + strconv.Quote(text) + ": want a time such as 1h or 7d"}
		}
		f.Since = time.Now().Add(-age)
	}
	before, err := strconv.ParseInt("0"+r.query.Get("after"), 10, 64)
	if err != nil {
		return view{}, operate.Refusal{Field: "after", Problem: " is no position: take it from the page before"}
	}
	if p.AuditPage, err = r.db().Audit(ctx, f, before, defaultRows); err != nil {
		return view{}, err
	}
	p.Pager = pager{Searched: p.Searched, SearchedTo: p.SearchedTo}
	if before != 0 {
		p.Pager.First = "audit" + p.query(0)
	}
	if p.Next != 0 {
		p.Pager.Next = "audit" + p.query(p.Next)
	}
	v := view{title: "Audit", page: "audit.html", data: p, tables: tables}
	if p.Partial {
		v.partial = []string{operate.AuditTable}
	}
	return v, nil
}

// query is the address of the audit with another position, or the first page if it is 0.
func (p auditPage) query(after int64) template.URL {
	values := url.Values{}
	for name, v := range p.Filter {
		values[name] = v
	}
	if after != 0 {
		values.Set("after", strconv.FormatInt(after, 10))
	}
	return encoded(values)
}

// An actionPage is what action.html shows.
type actionPage struct {
	*operate.Progress
	Acts bool
}

// action shows how far an action has come.
func action(ctx context.Context, r *request) (view, error) {
	p, tables, err := r.progress(ctx)
	if err != nil {
		return view{}, err
	}
	shown := actionPage{p, r.acts()}
	return view{title: p.Verb + " " + p.Table, page: "action.html", data: shown, tables: tables}, nil
}

// progress reads the action that the address names, if the user sees its table.
func (r *request) progress(ctx context.Context) (*operate.Progress, []string, error) {
	seen, err := r.seenTables(ctx)
	if err != nil {
		return nil, nil, err
	}
	tables := seen.whole
	id, err := uuid.Parse(r.PathValue("action"))
	if err != nil {
		return nil, nil, notFound
	}
	p, err := r.db().Progress(ctx, id)
	if err == nil && (p == nil || !r.user.sees(p.Table) && !r.user.ordered(p)) {
		err = problem{status: http.StatusNotFound, Title: "There is no such action", tables: tables,
			Detail: "Nobody did it, or it was longer ago than the audit goes back.", Advice: "Look for it in the audit."}
	}
	return p, tables, err
}

// ordered tells whether an action by a filter concerns nothing but queues that the user sees.
func (u User) ordered(p *operate.Progress) bool {
	among, mine := p.Order.Filter.Among, u.Queues[p.Table]
	other := func(name string) bool { return !slices.Contains(mine, name) }
	return p.ByFilter && len(among) > 0 && !slices.ContainsFunc(among, other)
}

// stopAction stops an action, whichever process carries it out.
func stopAction(ctx context.Context, r *request) (view, error) {
	p, _, err := r.progress(ctx)
	if err != nil {
		return view{}, err
	}
	db := r.acting()
	if p.ByFilter && !p.Ended() && !p.Stopped() {
		err = db.Stop(ctx, p)
	}
	return view{to: below("audit", p.Action.String())}, err
}

// resumeAction goes on with an action that was stopped, or whose process has ended.
func resumeAction(ctx context.Context, r *request) (view, error) {
	p, tables, err := r.progress(ctx)
	if err != nil {
		return view{}, err
	}
	shown := view{to: below("audit", p.Action.String())}
	if p.Ended() || p.Running() {
		return shown, nil
	}
	if !has(r.visible.all(), p.Table) || !p.ByFilter {
		return view{}, problem{status: http.StatusConflict, Title: "This cannot be resumed", tables: tables,
			Detail: "The table is gone, or the action was not one by a filter.", Advice: "Begin a new one on the list of rows."}
	}
	t, _, err := r.rowsOf(ctx, p.Table)
	if err != nil {
		return view{}, err
	}
	db := r.acting()
	hidden, err := db.Hidden(ctx, []*workqueue.Table{t})
	if err != nil {
		return view{}, err
	}
	if len(hidden) > 0 {
		return view{}, partlySeen
	}
	resume := func(ctx context.Context) error { return db.Resume(ctx, p) }
	if r.handler.runs.has(p.Action) { // at the batch that the stop lets it finish; it goes on after it
		return shown, resume(ctx)
	}
	return shown, r.handler.carryOut(ctx, db, t, p.Order, resume)
}
