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

	"github.com/txwork/txwork/internal/postgres"
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

	tables  []string      // of the navigation
	partial []string      // tables of which row-level security hides rows
	live    bool          // it is read again when the figures are new
	content template.HTML // of the page, if it was rendered before
	to      string        // if set: redirects to this path below the root

	problem problem // if it is the page of one
}

// navigation are the pages that the layout leads to.
var navigation = []struct{ Path, Label, Page string }{{"dead", "Dead letters", "dead.html"},
	{"queues", "Queues", "queues.html"}, {"schedules", "Schedules", "schedules.html"}, {"keys", "Keys", "keys.html"},
	{"joins", "Joins", "joins.html"}, {"logs", "Log", "logs.html"}, {"inbox", "Inbox", "inbox.html"},
	{"alarms", "Alarms", "alarms.html"}, {"processes", "Processes", "processes.html"},
	{"maintenance", "Maintenance", "maintenance.html"}, {"history", "History", "history.html"},
	{"audit", "Audit", "audit.html"}}

// A frame is what the layout shows.
type frame struct {
	Title, Root, Schema, User string
	Page                      string // the file of its template
	Tables                    []string
	Partial                   []string
	Live                      bool
	Version                   string // of the assets
	Acts                      bool   // pages have buttons
	Data                      any
	Content                   template.HTML
}

// frame is what the layout shows of a page.
func (r *request) frame(v view) frame {
	return frame{v.title, r.root, r.handler.Schema, r.user.Name, v.page, v.tables, v.partial, v.live, assetVersion,
		r.acts(), v.data, v.content}
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
	r.show(w, view{title: p.Title, page: "problem.html", data: p, problem: p, tables: p.tables})
}

// tables reads which tables the user sees, or the problem that there is none.
func (r *request) tables(ctx context.Context) ([]string, error) {
	known, err := r.db().TableNames(ctx)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return nil, noTables(r.handler.Schema)
	}
	visible := r.user.visible(known)
	if len(visible) == 0 && !r.user.sees(postgres.LogTable) && !r.user.sees("alarms") { // which have pages of their own
		return nil, problem{status: http.StatusForbidden, Title: "Nothing to see",
			Detail: fmt.Sprintf("User %s sees none of the tables of schema %s.", r.user.Name, r.handler.Schema),
			Advice: "Ask whoever runs this dashboard for access to some."}
	}
	return visible, nil
}

// has tells whether the page may show a table.
func has(tables []string, name string) bool { return slices.Contains(tables, name) }
