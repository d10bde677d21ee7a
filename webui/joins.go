package webui

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

// maxJoins is how many joins of a table are on a page.
const maxJoins = 25

// joinSearch keeps a page of joins below 15,000 index entries of joins, and 5,000 of members.
var joinSearch = survey.JoinSearch{Joins: operate.MaxSearched, Members: 200, Open: 50}

// A joinsPage is what joins.html shows.
type joinsPage struct {
	Status, Label, After, Table string
	Tables                      []joinsTable
	Now                         time.Time
}

// A joinsTable is joins of a table.
type joinsTable struct {
	Name    string
	Joins   operate.Joins
	Problem string
}

// States are those of joins.
func (joinsPage) States() []string { return operate.JoinStates }

// Query is the address of the page with another state or position.
func (p joinsPage) Query(table, status, after string) template.URL {
	return query("status", status, "table", table, "label", p.Label, "after", after)
}

// SearchedTo is when the last join was written that was searched.
func (t joinsTable) SearchedTo() *time.Time {
	id, err := uuid.Parse(t.Joins.Next)
	if err != nil || id.Version() != 7 {
		return nil
	}
	at := time.Unix(id.Time().UnixTime()).UTC()
	return &at
}

func hasJoins(t *survey.Facts) bool { return t.Has("joined") }

// joins lists batches, workflows and other joins in a state.
func joins(ctx context.Context, r *request) (view, error) {
	v := view{title: "Joins", page: "joins.html"}
	all, err := r.sections(ctx, &v, hasJoins)
	if err != nil {
		return view{}, err
	}
	p := joinsPage{Status: cmp.Or(r.query.Get("status"), operate.JoinStates[0]), Label: r.query.Get("label"),
		After: r.query.Get("after"), Table: r.query.Get("table"), Now: time.Now()}
	o := operate.JoinOptions{Status: p.Status, Label: p.Label, After: p.After, Limit: maxJoins, Search: joinSearch}
	if err := o.Check(); err != nil {
		return view{}, err
	}
	for _, t := range all {
		one := joinsTable{Name: t.Name}
		if one.Joins, err = operate.ReadJoins(ctx, r.handler.reader(), t, o, func(int) {}); err != nil {
			one.Problem = r.handler.explain(ctx, "joins of "+t.Name, err).Error()
		}
		for i := range one.Joins.Joins {
			one.Joins.Joins[i].Error = r.handler.errorOf(t.Name, one.Joins.Joins[i].Error)
		}
		p.Tables = append(p.Tables, one)
	}
	v.data = p
	return v, nil
}

// A joinPage is what join.html shows.
type joinPage struct {
	Name string // of the table
	*operate.JoinMembers
	Graph *graph
	Tasks []survey.Task // those of the state that was chosen
	State string
	More  bool // the join has more members than were read
	Count []stateCount
	Now   time.Time
}

// A stateCount is how many members are in a state.
type stateCount struct {
	State string
	N     int
}

// maxMembers is how many members are listed.
const maxMembers = 500

// joinOne shows a join with its members and, if they depend on each other, how.
func joinOne(ctx context.Context, r *request) (view, error) {
	v := view{page: "join.html"}
	all, err := r.sections(ctx, &v, func(t *survey.Facts) bool { return hasJoins(t) && t.Name == r.PathValue("table") })
	if err != nil {
		return view{}, err
	}
	if len(all) == 0 {
		return view{}, noTable(r.handler.Schema, r.PathValue("table"), v.tables)
	}
	t := all[0]
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return view{}, noID(v.tables)
	}
	p := joinPage{Name: t.Name, State: r.query.Get("state"), Now: time.Now()}
	if p.JoinMembers, err = operate.ReadJoin(ctx, r.handler.reader(), t, id.String(), 1); err != nil {
		return view{}, err
	}
	if p.JoinMembers == nil {
		return view{}, problem{status: http.StatusNotFound, Title: "The join is not there", tables: v.tables,
			Detail: fmt.Sprintf("%s has no join %s: it was never written, or it has been deleted, as joins are when their "+
				"retention ends.", t.Name, id), Advice: "Look for it in the list of joins."}
	}
	tasks, edges, err := survey.Tasks(ctx, r.handler.reader(), t, id.String())
	if err != nil {
		return view{}, err
	}
	p.Error = r.handler.errorOf(t.Name, p.Error)
	for i := range tasks {
		tasks[i].Error = r.handler.errorOf(t.Name, tasks[i].Error)
	}
	p.show(tasks, edges)
	v.title, v.data = "Join "+id.String(), p
	return v, nil
}

// show prepares the graph and the list.
func (p *joinPage) show(tasks []survey.Task, edges []survey.Edge) {
	p.More = len(tasks) >= survey.MaxTasks
	p.Graph = newGraph(tasks, edges)
	counts := map[string]int{}
	for _, t := range tasks {
		counts[t.State]++
		if (p.State == "" || p.State == t.State) && len(p.Tasks) < maxMembers {
			p.Tasks = append(p.Tasks, t)
		}
	}
	for _, state := range taskStates {
		if n := counts[state]; n > 0 {
			p.Count = append(p.Count, stateCount{state, n})
		}
	}
}

// Listed is how many members are in the state that was chosen.
func (p joinPage) Listed() (n int) {
	for _, c := range p.Count {
		if p.State == "" || p.State == c.State {
			n += c.N
		}
	}
	return n
}
