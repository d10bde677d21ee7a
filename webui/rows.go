package webui

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

const (
	defaultRows = 50
	maxRows     = 200
)

// A rowsPage is what rows.html shows.
type rowsPage struct {
	Table   string
	State   stateLabel
	States  []stateTab
	Age     time.Duration // of the counts
	Counted bool          // there are counts

	Form     filterForm
	Filtered bool
	Filter   url.Values // for links to other states

	When    string // head of the column of times
	Runs    bool
	Columns []operate.Column
	Rows    []rowLine
	Now     time.Time

	After string
	Pager pager
	Limit int

	Deeds  []deed // for all that match
	Chosen []deed // for rows that are chosen
}

// A stateTab leads to the rows in a state.
type stateTab struct {
	stateLabel
	Depth   string
	Current bool
}

// A rowLine is a row of the list.
type rowLine struct {
	*operate.Row
	At     *time.Time
	Values []operate.Value
}

// Query is the address of the list with another position, or the first page if it is empty.
func (p rowsPage) Query(after string) template.URL {
	values := url.Values{}
	for name, v := range p.Filter {
		values[name] = v
	}
	if after != "" {
		values.Set("after", after)
	}
	if p.Limit != defaultRows {
		values.Set("limit", strconv.Itoa(p.Limit))
	}
	return encoded(values)
}

// Matching is the filter, for what is to be done to all that match.
func (p rowsPage) Matching() template.URL { return encoded(p.Filter) }

// table opens the table that the address names, for its rows.
func (r *request) table(ctx context.Context) (t *workqueue.Table, known []string, err error) {
	return r.rowsOf(ctx, r.PathValue("table"))
}

// rowsOf opens a table for its rows, of which the user may see [request.among] only. Known are all tables that the user
// sees as a whole.
func (r *request) rowsOf(ctx context.Context, name string) (t *workqueue.Table, known []string, err error) {
	v, err := r.seenTables(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err = r.openOf(ctx, name, v.all())
	return t, v.whole, err
}

// among are the parts of a table that the user sees; nil: all.
func (r *request) among(table string) []string {
	if r.user.sees(table) {
		return nil
	}
	return append([]string{}, r.user.Queues[table]...)
}

// tableNamed opens a table that the user sees as a whole. Known are all of those.
func (r *request) tableNamed(ctx context.Context, name string) (t *workqueue.Table, known []string, err error) {
	if known, err = r.tables(ctx); err != nil {
		return nil, nil, err
	}
	t, err = r.openOf(ctx, name, known)
	return t, known, err
}

// openOf opens one of the tables.
func (r *request) openOf(ctx context.Context, name string, tables []string) (*workqueue.Table, error) {
	if !has(tables, name) {
		return nil, noTable(r.handler.Schema, name, tables)
	}
	t, err := workqueue.Open(workqueue.Spec{Schema: r.handler.Schema, Table: name},
		workqueue.Telemetry{Logger: r.handler.Logger})
	if err != nil {
		return nil, err
	}
	return t, r.db().Read(ctx, func(tx pgx.Tx) error { return t.CheckVersion(ctx, tx) })
}

// open is table, with the schema as the page reads it and the tables of which row-level security hides rows.
func (r *request) open(ctx context.Context) (t *workqueue.Table, known []string, db operate.DB, hidden []string,
	err error) {
	db = *r.db()
	if t, known, err = r.table(ctx); err != nil {
		return nil, nil, db, nil, err
	}
	hidden, err = db.Hidden(ctx, []*workqueue.Table{t})
	db.Partial = len(hidden) > 0
	return t, known, db, hidden, err
}

// rows lists the rows of a table in a state, or leads to its ready rows.
func rows(ctx context.Context, r *request) (view, error) {
	t, known, db, hidden, err := r.open(ctx)
	if err != nil {
		return view{}, err
	}
	name := t.Spec().Table
	if r.PathValue("state") == "" {
		return view{to: "t/" + name + "/" + string(workqueue.StateReady)}, nil
	}
	label, ok := labelOf(r.PathValue("state"))
	if !ok {
		return view{}, problem{status: http.StatusNotFound, Title: "There is no such state", tables: known,
			Detail: "No row can be in the state that the address names.", Advice: "Go on from the table's ready rows."}
	}
	o, err := r.options(name, label.State)
	if err != nil {
		return view{}, err
	}
	found, err := db.List(ctx, t, o, func(int) {})
	if err != nil {
		return view{}, err
	}
	p := rowsPage{Table: name, State: label, Now: found.Now, After: o.After, Limit: o.Limit,
		Filtered: o.Filter.Given(), Filter: r.filterValues()}
	p.page(found)
	for i := range found.Rows {
		if text := found.Rows[i].LastError; text != nil {
			*text = r.handler.errorOf(name, *text)
		}
	}
	p.list(found, operate.Listings[label.State])
	p.fields(r, found.Columns)
	last, _ := r.handler.figures.begin()
	p.count(r, last)
	if r.acts() && len(p.Rows) > 0 {
		if p.Chosen = deedsOf(label.State, false); len(hidden) == 0 {
			p.Deeds = p.Chosen
		}
	}
	return view{title: name + ": " + label.Label, page: "rows.html", data: p, tables: known, partial: hidden}, nil
}

// page says where other pages are.
func (p *rowsPage) page(found *operate.Page) {
	p.Pager = pager{Searched: found.Searched, SearchedTo: found.SearchedTo}
	if p.After != "" {
		p.Pager.First = template.URL(p.State.State) + p.Query("")
	}
	if found.Next != "" {
		p.Pager.Next = template.URL(p.State.State) + p.Query(found.Next)
	}
}

// list takes the rows that were found.
func (p *rowsPage) list(found *operate.Page, l operate.Listing) {
	p.When, p.Runs = strings.ToLower(l.When), l.Runs
	p.Columns = slices.DeleteFunc(slices.Clone(operate.ListedColumns(p.Table, found.Columns)),
		func(c operate.Column) bool { return empty(found.Rows, c) })
	for i := range found.Rows {
		row := &found.Rows[i].Row
		p.Rows = append(p.Rows, rowLine{row, l.Time(row), row.Values(p.Columns)})
	}
}

// empty tells whether no row of a page has a value in a column.
func empty(rows []operate.ListedRow, c operate.Column) bool {
	return !slices.ContainsFunc(rows, func(r operate.ListedRow) bool { return !r.Values([]operate.Column{c})[0].Null })
}

// count takes the numbers of rows from the last survey, if there is one: a list does not wait for it.
func (p *rowsPage) count(r *request, last *reading) {
	figures, ok := last.of(p.Table)
	if ok {
		figures, ok = r.shown(figures)
	}
	if p.Counted = ok; ok {
		p.Age = time.Since(last.At)
	}
	for _, l := range stateLabels {
		tab := stateTab{stateLabel: l, Current: l.State == p.State.State}
		if ok {
			tab.Depth = figures.Depth(l.State)
		}
		p.States = append(p.States, tab)
	}
}

// fields has one for each filter that the table can answer.
func (p *rowsPage) fields(r *request, columns []operate.Column) {
	has := func(names ...string) bool {
		for _, c := range columns {
			for _, name := range names {
				if c.Name == name {
					return true
				}
			}
		}
		return false
	}
	p.Form = filterForm{Action: p.State.State, Given: p.Filtered}
	add := func(name, label, hint string) {
		p.Form.Fields = append(p.Form.Fields, filterField{name, label, r.query.Get(name), hint})
	}
	for _, f := range filters {
		if f.of == nil || has(f.of...) {
			add(f.name, f.label, f.hint)
		}
	}
}

// filters are the names in an address that narrow down a list, with the columns of which a table needs one.
var filters = []struct {
	name, label, hint string
	of                []string
}{
	{"kind", "Kind", "", []string{"kind"}},
	{"queue", "Queue", "", []string{"queue"}},
	{"consumer", "Consumer", "", []string{"consumer"}},
	{"subscription", "Subscription", "", []string{"subscription"}},
	{"topic", "Topic", "", []string{"topic"}},
	{"priority", "Priority", "1 high, 2 normal, 3 low", []string{"priority"}},
	{"key", "Key", "in full", operate.KeyColumns},
	{"error", "Error has", "part of the last error", nil},
	{"newer", "Newer than", "such as 1h or 7d", nil},
	{"older", "Older than", "such as 1h or 7d", nil},
}

// filterValues are the filters that the address has.
func (r *request) filterValues() url.Values {
	values := url.Values{}
	for _, f := range filters {
		if text := r.query.Get(f.name); text != "" {
			values.Set(f.name, text)
		}
	}
	return values
}

// options reads what the address asks for.
func (r *request) options(table, state string) (o operate.ListOptions, err error) {
	o = operate.ListOptions{State: state, Limit: defaultRows, After: r.query.Get("after"), Filter: operate.Filter{
		Kind: r.query.Get("kind"), Queue: r.query.Get("queue"), Consumer: r.query.Get("consumer"),
		Subscription: r.query.Get("subscription"), Topic: r.query.Get("topic"), Key: r.query.Get("key"),
		Error: r.query.Get("error"), Among: r.among(table)}}
	if text := r.query.Get("limit"); text != "" {
		if o.Limit, err = strconv.Atoi(text); err != nil || o.Limit < 1 || o.Limit > maxRows {
			return o, operate.Refusal{Field: "limit",
				Problem: fmt.Sprintf(" %q: want a number from 1 to %d", text, maxRows)}
		}
	}
	if text := strings.TrimSpace(r.query.Get("priority")); text != "" {
		n, err := strconv.ParseInt(text, 10, 16)
		if err != nil || n < 1 {
			return o, operate.Refusal{Field: "priority",
				Problem: fmt.Sprintf(" %q: want a number such as 1, for high", text)}
		}
		o.Filter.Priority = int16(n)
	}
	for _, age := range []struct {
		name string
		to   *operate.Age
	}{{"newer", &o.Filter.NewerThan}, {"older", &o.Filter.OlderThan}} {
		text := strings.TrimSpace(r.query.Get(age.name))
		if text == "" {
			continue
		}
		d, err := input.Duration(text)
		if err != nil {
			return o, operate.Refusal{Field: age.name,
				Problem: fmt.Sprintf(" %q: want a time such as 90s, 1h or 7d", text)}
		}
		*age.to = operate.Age{Given: true, Duration: d}
	}
	return o, o.Filter.Check()
}
