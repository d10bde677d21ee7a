package webui

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"sync"
)

//go:embed pages/*.html
var pageFiles embed.FS

// pages are the templates by name, each with the layout. Most programs that contain this package show none.
var pages = sync.OnceValue(parsePages)

func parsePages() map[string]*template.Template {
	shared := []string{"pages/layout.html", "pages/charts.html", "pages/lists.html"}
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(pageFiles, shared...))
	names, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		panic(err)
	}
	all := map[string]*template.Template{}
	for _, name := range names {
		if !slices.Contains(shared, name) {
			all[path.Base(name)] = template.Must(template.Must(layout.Clone()).ParseFS(pageFiles, name))
		}
	}
	return all
}

// A view is what a page shows.
type view struct {
	title string
	page  string // the file of its template
	data  any

	tables  []string      // of the navigation, as a whole
	partial []string      // tables of which row-level security hides rows
	live    bool          // it is read again when the figures are new
	content template.HTML // of the page, if it was rendered before
	to      string        // if set: redirects to this path below the root

	byQueue   []string // of the navigation, of which the user sees some queues
	sectional bool     // the navigation leads to pages of whole tables, too

	problem problem // if it is the page of one
}

// A navigationPage is one that the layout leads to.
type navigationPage struct{ Path, Label, Page string }

var navigation = []navigationPage{{"dead", "Dead letters", "dead.html"},
	{"queues", "Queues", "queues.html"}, {"schedules", "Schedules", "schedules.html"}, {"keys", "Keys", "keys.html"},
	{"joins", "Joins", "joins.html"}, {"logs", "Log", "logs.html"}, {"inbox", "Inbox", "inbox.html"},
	{"alarms", "Alarms", "alarms.html"}, {"processes", "Processes", "processes.html"},
	{"maintenance", "Maintenance", "maintenance.html"}, {"history", "History", "history.html"},
	{"audit", "Audit", "audit.html"}}

// byQueue are the files of those of them that users of some queues see, too.
var byQueue = []string{"queues.html", "history.html"}

// A frame is what the layout shows.
type frame struct {
	Title, Root, User string
	Schema            string // empty for those who may not look
	Page              string // the file of its template
	Pages             []navigationPage
	Tables            []string
	Partial           []string
	Parts             string // which parts of tables the user sees, if they are not whole
	Live              bool
	Version           string // of the assets
	Acts              bool   // pages have buttons
	Data              any
	Content           template.HTML
}

// frame is what the layout shows of a page.
func (r *request) frame(v view) frame {
	f := frame{Title: v.title, Root: r.root, User: r.user.Name, Page: v.page, Partial: v.partial, Live: v.live,
		Version: assetVersion, Acts: r.acts(), Data: v.data, Content: v.content,
		Tables: visible{whole: v.tables, byQueue: v.byQueue}.all(), Parts: r.user.parts(v.byQueue)}
	if r.admitted {
		f.Schema = r.handler.Schema
	}
	for _, p := range navigation {
		if len(v.byQueue) == 0 || v.sectional || slices.Contains(byQueue, p.Page) {
			f.Pages = append(f.Pages, p)
		}
	}
	return f
}

// render renders what is below the head of a page.
func (r *request) render(v view) (template.HTML, error) {
	var b bytes.Buffer
	err := pages()[v.page].ExecuteTemplate(&b, "content", r.frame(v))
	return template.HTML(b.String()), err
}

// show renders a page at once, so that a mistake in a template is no half page.
func (r *request) show(w http.ResponseWriter, v view) {
	if v.to != "" {
		w.Header().Set("Location", r.root+v.to)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var b bytes.Buffer
	var err error
	if v.content == "" {
		v.content, err = r.render(v)
	}
	if err == nil {
		err = pages()[v.page].Execute(&b, r.frame(v))
	}
	if err != nil {
		r.handler.Logger.ErrorContext(r.Context(), "dashboard: rendering a page failed", "page", v.page, "error", err)
		http.Error(w, "This page could not be rendered. The log of the program says why.", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	if v.problem.challenge != "" {
		header.Set("WWW-Authenticate", v.problem.challenge)
	}
	if v.problem.retry != "" {
		header.Set("Retry-After", v.problem.retry)
	}
	if v.problem.status != 0 {
		w.WriteHeader(v.problem.status)
	}
	_, _ = w.Write(b.Bytes()) // nobody can be told of a connection that is gone
}

// refuse shows the page of a problem.
func (r *request) refuse(w http.ResponseWriter, p problem) {
	r.show(w, r.navigated(view{title: p.Title, page: "problem.html", data: p, problem: p, tables: p.tables}))
}

// navigated adds what the user sees by queue to the navigation, if the page has read that.
func (r *request) navigated(v view) view {
	v.byQueue, v.sectional = r.visible.byQueue, len(r.visible.whole) > 0 || r.visible.otherWay
	return v
}

// seenTables reads which tables the user sees, also those of which there are some queues only, or the problem that
// there is none.
func (r *request) seenTables(ctx context.Context) (visible, error) {
	known, err := r.db().TableNames(ctx)
	if err != nil {
		return visible{}, err
	}
	if len(known) == 0 {
		return visible{}, noTables(r.handler.Schema)
	}
	r.visible = r.user.visible(known)
	if len(r.visible.all()) == 0 && !r.visible.otherWay {
		return visible{}, problem{status: http.StatusForbidden, Title: "Nothing to see",
			Detail: fmt.Sprintf("User %s sees none of the tables of schema %s.", r.user.Name, r.handler.Schema),
			Advice: "Ask whoever runs this dashboard for access to some."}
	}
	return r.visible, nil
}

// tables reads which tables the user sees as a whole, or the problem that there is none.
func (r *request) tables(ctx context.Context) ([]string, error) {
	v, err := r.seenTables(ctx)
	if err == nil && len(v.whole) == 0 && !v.otherWay {
		err = problem{status: http.StatusForbidden, Title: "This is not shown by queue",
			Detail: "This is about whole tables, and you see parts of them: " + r.user.parts(v.byQueue) +
				". Nothing was changed.",
			Advice: "Go on with the rows of your queues."}
	}
	return v.whole, err
}

// has tells whether the page may show a table.
func has(tables []string, name string) bool { return slices.Contains(tables, name) }
