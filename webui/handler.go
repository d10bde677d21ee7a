package webui

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/operate"
)

// maxReads is how many pages read at the same time. Others wait.
const maxReads = 4

// A handler answers requests.
type handler struct {
	Config
	db, acts    operate.DB // with the pools of pages and of actions
	mux         *http.ServeMux
	routes      []string // the patterns of mux, for tests that must not forget one
	crossOrigin *http.CrossOriginProtection
	reads       chan struct{}
	figures     figures
	streams     streams
	sharing     sharing
	runs        runs
}

// handle adds a route.
func (h *handler) handle(pattern string, answer http.HandlerFunc) {
	h.routes = append(h.routes, pattern)
	h.mux.HandleFunc(pattern, answer)
}

func (h *handler) route() {
	h.handle("GET /{$}", h.live(overview))
	h.handle("GET /queues", h.live(queues))
	h.handle("GET /history", h.page(history))
	h.handle("GET /schedules", h.live(schedules))
	h.handle("GET /logs", h.live(logs))
	h.handle("GET /logs/find", h.page(findMessage))
	h.handle("GET /logs/{id}", h.page(message))
	h.handle("GET /inbox", h.page(inbox))
	h.handle("GET /alarms", h.live(alarms))
	h.handle("GET /maintenance", h.live(maintenance))
	h.handle("GET /processes", h.live(processes))
	h.handle("GET /keys", h.live(keys))
	h.handle("GET /joins", h.live(joins))
	h.handle("GET /joins/{table}/{id}", h.live(joinOne))
	h.handle("GET /dead", h.page(deadLetters))
	h.handle("GET /find", h.page(find))
	h.handle("GET /t/{table}", h.page(rows))
	h.handle("GET /t/{table}/{state}", h.page(rows))
	h.handle("GET /t/{table}/row/{id}", h.page(row))
	h.handle("GET /live", h.stream)
	h.handle("GET /audit", h.page(audit))
	h.handle("GET /audit/{action}", h.page(action))
	h.change("/audit/{action}/stop", stopAction)
	h.change("/audit/{action}/resume", resumeAction)
	h.change("/t/{table}/row/{id}/{verb}", changeRow)
	h.ask("/t/{table}/{state}/{verb}", askRows)
	h.change("/t/{table}/{state}/{verb}", changeRows)
	h.change("/t/{table}/chosen/{state}/{verb}", changeChosen)
	h.routeRules()
	h.handle("GET /", h.page(func(context.Context, *request) (view, error) { return view{}, notFound }))
	other := readOnly
	if h.Actions {
		other = noAction
	}
	h.handle("/", h.page(func(context.Context, *request) (view, error) { return view{}, other }))
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	h.streams.stopping(r)
	if r.ContentLength != 0 { // otherwise the server waits for the body, for as long as its sender likes
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // not every server can
	}
	if r.URL.Path == "" { // the prefix without its slash: relative links would lead out of it
		prefix := ""
		// It may be a whole address, or that of a CONNECT.
		if asked, err := url.ParseRequestURI(r.RequestURI); err == nil {
			prefix = asked.EscapedPath()
		}
		w.Header().Set("Location", "./"+path.Base(prefix)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	asked := &request{Request: r, handler: h, root: rootOf(r.URL.EscapedPath()),
		query: r.URL.Query()}
	if err := h.crossOrigin.Check(r); err != nil {
		asked.refuse(w, foreign)
		return
	}
	// Also whoever may not look gets a page that looks like one.
	if name, ok := strings.CutPrefix(r.URL.Path, "/assets/"); ok && isAsset(r.Method, name) {
		serveAsset(w, r, name)
		return
	}
	var err error
	if asked.user, err = h.authenticate(r); err != nil {
		h.Logger.Log(r.Context(), refusalLevel(r, err), "dashboard: request refused", "error", err,
			"from", r.RemoteAddr)
		asked.refuse(w, refusal(err))
		return
	}
	asked.admitted = true
	if !strings.HasPrefix(r.URL.Path, "/") || path.Clean(r.URL.Path) != r.URL.Path {
		asked.refuse(w, notFound)
		return
	}
	h.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, asked)))
}

// protect sets the headers of every answer. Scripts and styles are files of ours only, so what a row says cannot run.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // without any, browsers hide the origin of our own forms as well
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// rootOf returns the way from a page to the overview. All links begin with it, so that they need not know the prefix.
func rootOf(path string) string {
	if depth := strings.Count(path, "/") - 1; depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}

type requestKey struct{}

// A request is one that was authenticated.
type request struct {
	*http.Request
	handler  *handler
	user     User
	admitted bool // the user was authenticated: otherwise a page says nothing of what it is a dashboard of
	root     string
	query    url.Values // of the address: a body, as long as its sender likes, is read of operators only
	form     url.Values // of a change: the body
	visible  visible    // tables, once they were read
}

// db is the database as the request uses it.
func (r *request) db() *operate.DB {
	if r.form != nil {
		return &r.handler.acts
	}
	return &r.handler.db
}

// page returns a handler for a page that reads. A few pages read at a time, so that they cannot use up a pool.
func (h *handler) page(read func(context.Context, *request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := r.Context().Value(requestKey{}).(*request)
		asked.Request = r // has the values of the path
		v, p := h.inTurn(asked, read)
		asked.answer(w, v, p)
	}
}

// answer shows a page, or what explains why it cannot be read.
func (r *request) answer(w http.ResponseWriter, v view, p *problem) {
	if p != nil {
		r.refuse(w, *p)
	} else {
		r.show(w, v)
	}
}

// live returns a handler for a page that is kept up to date. Those who have the same one open share it.
func (h *handler) live(read func(context.Context, *request) (view, error)) http.HandlerFunc {
	lively := func(ctx context.Context, r *request) (view, error) {
		v, err := read(ctx, r)
		v.live = true
		return v, err
	}
	shared := func(ctx context.Context, r *request) (view, error) {
		v, err := lively(ctx, r)
		if err == nil {
			v.content, err = r.render(r.navigated(v))
			v.data = nil // which is not kept
		}
		return v, err
	}
	alone := h.page(lively)
	return func(w http.ResponseWriter, r *http.Request) {
		last := h.figures.seen()
		if r.Header.Get(updateHeader) == "" || last == nil {
			alone(w, r)
			return
		}
		asked := r.Context().Value(requestKey{}).(*request)
		asked.Request = r
		v, p := h.sharing.page(r.Context(), last, asked.scope(), func() (view, *problem) {
			return h.inTurn(asked, shared)
		})
		asked.answer(w, v, p)
	}
}

// contained reads a page. A hook of the host that panics would otherwise break off the connection without a word.
func contained(ctx context.Context, r *request, read func(context.Context, *request) (view, error)) (v view,
	err error) {
	defer contain.Recover(&err)
	return read(ctx, r)
}

// inTurn reads a page in its turn, or what explains why it cannot be read. The turn ends before the page is sent, which
// takes as long as its reader likes.
func (h *handler) inTurn(asked *request, read func(context.Context, *request) (view, error)) (view, *problem) {
	ctx, cancel := context.WithTimeout(asked.Context(), h.Timeout)
	defer cancel()
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
	case <-ctx.Done():
		return view{}, &busy
	}
	v, err := contained(ctx, asked, read)
	v = asked.navigated(v)
	if err != nil {
		p := h.explain(ctx, asked.URL.Path, err)
		if p.rights != "" { // read here, where nothing else is read: others may hold the pool's only connection
			p.Advice = asked.grant(ctx, p.rights)
		}
		return v, &p
	}
	return v, nil
}
