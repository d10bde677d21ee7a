package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

const (
	maxForm   = 64 << 10         // bytes of a form
	formLimit = 10 * time.Second // until it has been received
	maxRuns   = 4                // actions by a filter at the same time
	runLimit  = 6 * time.Hour    // of such an action; it can be resumed then
)

// change has a form sent to a path change something. Without Config.Actions there is no such path. What do returns is
// shown; most redirect to the page that the form was on, so that a reload sends nothing. It acts by [request.acting].
func (h *handler) change(path string, do func(context.Context, *request) (view, error)) {
	if !h.Actions {
		return
	}
	page := h.page(func(ctx context.Context, r *request) (view, error) {
		if err := r.mayAct(); err != nil {
			return view{}, err
		}
		v, err := do(ctx, r)
		return v, ofForm(err)
	})
	h.handle("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		asked := r.Context().Value(requestKey{}).(*request)
		if err := asked.mayAct(); err != nil {
			asked.refuse(w, err.(problem))
			return
		}
		if err := readForm(w, r); err != nil {
			asked.refuse(w, badForm)
			return
		}
		asked.form = r.PostForm
		page(w, r)
	})
}

// ofForm explains what cannot be done with the values of a form. Where pages are read, they are those of the address.
func ofForm(err error) error {
	var refusal operate.Refusal
	var pg *pgconn.PgError
	var detail string
	switch {
	case errors.As(err, &refusal):
		detail = refusal.Error()
	case errors.As(err, &pg) && strings.HasPrefix(pg.Code, "22"): // data exception
		detail = "the database says: " + pg.Message
	default:
		return err
	}
	return problem{status: http.StatusBadRequest, Title: "This cannot be done",
		Detail: postgres.Visible(detail) + ". Nothing was changed.", Advice: "Go back, and correct the form."}
}

// ask is a page on which an operator confirms an action.
func (h *handler) ask(path string, read func(context.Context, *request) (view, error)) {
	if !h.Actions {
		return
	}
	h.handle("GET "+path, h.page(func(ctx context.Context, r *request) (view, error) {
		if err := r.mayAct(); err != nil {
			return view{}, err
		}
		return read(ctx, r)
	}))
}

// readForm reads a body, which only operators send: a small one, within a time.
func readForm(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(formLimit)) // not every server can
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if err == nil {
		_ = control.SetReadDeadline(time.Time{}) // it would end the request, which may take longer
	}
	return err
}

// mayAct refuses users who may only look.
func (r *request) mayAct() error {
	switch {
	case r.user.Role != Operator:
		return mayOnlyLook
	case r.user.Name == "":
		return nameless
	}
	return nil
}

// acts tells whether pages show the buttons.
func (r *request) acts() bool { return r.handler.Actions && r.mayAct() == nil }

// acting is the database for actions of the user.
func (r *request) acting() operate.DB {
	db := r.handler.acts
	db.Actor = operate.Actor{Who: r.user.Name, Origin: cmp.Or(r.user.Address, r.RemoteAddr)}
	return db
}

// forget has pages read again what an action has changed.
func (h *handler) forget() {
	h.figures.forget()
	h.sharing.forget()
}

var (
	mayOnlyLook = problem{status: http.StatusForbidden, Title: "You may only look",
		Detail: "This is for operators. Nothing was changed.", Advice: "Ask an operator, or whoever runs this dashboard."}
	nameless = problem{status: http.StatusForbidden, Title: "Who are you?",
		Detail: "The audit records who acts, and you have no name here. Nothing was changed.",
		Advice: "Ask whoever runs this dashboard to have its authentication say your name."}
	badForm = problem{status: http.StatusBadRequest, Title: "The form cannot be read",
		Detail: "What was sent is no form of this dashboard, or was cut off. Nothing was changed.",
		Advice: "Go back, reload the page, and try again."}
	partlySeen = problem{status: http.StatusConflict, Title: "The role sees only a part",
		Detail: "Row-level security hides rows of this table, so nobody can say what this would change. Nothing was " +
			"changed.",
		Advice: "Change single rows on their pages, or act as a role that sees all."}
	tooManyRuns = problem{status: http.StatusServiceUnavailable, retry: "60", Title: "Other actions are running",
		Detail: "This dashboard carries out four actions at a time. Nothing was changed.",
		Advice: "Wait until one of them ends, and try again."}
)

// runs are the actions by a filter that this handler carries out.
type runs struct {
	mu  sync.Mutex
	all map[uuid.UUID]bool
}

// enter tells whether an action may run here: it does not yet, and there is room.
func (r *runs) enter(action uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[action] || len(r.all) >= maxRuns {
		return false
	}
	if r.all == nil {
		r.all = map[uuid.UUID]bool{}
	}
	r.all[action] = true
	return true
}

func (r *runs) leave(action uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, action)
}

func (r *runs) has(action uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[action]
}

// carryOut begins an action by a filter and goes on with it behind the request. Nothing has to be closed: it ends with
// the pool.
func (h *handler) carryOut(ctx context.Context, db operate.DB, t *workqueue.Table, o operate.Order,
	begin func(context.Context) error) error {
	if !h.runs.enter(o.Action) {
		if h.runs.has(o.Action) {
			return nil
		}
		return tooManyRuns
	}
	if err := begin(ctx); err != nil {
		h.runs.leave(o.Action)
		return err
	}
	go func() {
		defer h.runs.leave(o.Action)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runLimit)
		defer cancel()
		defer func() {
			if value := recover(); value != nil { // it would end the program
				err := db.End(ctx, o.Action, operate.Act{Verb: o.Verb, Target: o.Table}, "panic")
				h.Logger.ErrorContext(ctx, "dashboard: an action panicked", "action", o.Action, "panic", value,
					"stack", string(debug.Stack()), "error", err)
			}
		}()
		defer h.forget()
		// Each batch has pages read again, but not figures: these take longer, and would never be read to the end.
		err := db.CarryOut(ctx, t, o, func(int) { h.sharing.forget() })
		if err != nil && !errors.Is(err, operate.ErrStopped) {
			h.Logger.ErrorContext(ctx, "dashboard: an action stopped before its end", "action", o.Action, "verb", o.Verb,
				"table", t.Name(), "who", db.Actor.Who, "error", err)
		}
	}()
	return nil
}

// field returns a value of the form.
func (r *request) field(name string) string { return strings.TrimSpace(r.form.Get(name)) }

// below makes a path below the root, for redirects.
func below(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return strings.Join(escaped, "/")
}
