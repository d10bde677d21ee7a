package webui

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
)

// A Role says what a user may see.
type Role int

const (
	// Viewer sees all pages, and payloads and headers unless the Config hides them.
	Viewer Role = iota
	// Operator sees payloads and headers in any case, and may change things if the Config has Actions.
	Operator
)

// A User sends a request.
type User struct {
	Name string // shown on the pages, and noted in the audit
	Role Role

	// Address is where the request comes from, for the audit, for example as a trusted proxy says in a header. Default:
	// the RemoteAddr of the request.
	Address string

	// Tables are the tables that the user sees, by their names without the schema; outbox_log and alarms are among
	// them. Default: all, or none if Queues is not nil; an empty slice that is not nil is none. A user of some tables
	// does not see findings about the server as a whole, which may concern others.
	Tables []string

	// Queues are the parts of other tables that the user sees and acts on, by the names of the tables: queues (jobs),
	// consumers (inbox), topics (outbox, timers) or, in a table of your own, values of its first lane, or its kinds or
	// topics. A row of another part is to the user as if it did not exist. Pages that show tables as a whole leave
	// these tables out. If Tables has such a table, too, Queues counts.
	Queues map[string][]string
}

func (u User) seesAll() bool { return u.Tables == nil && u.Queues == nil }

// sees tells whether the user sees a table as a whole.
func (u User) sees(table string) bool {
	_, divided := u.Queues[table]
	return u.seesAll() || !divided && slices.Contains(u.Tables, table)
}

// whole are the tables that the user sees as a whole; nil: all.
func (u User) whole() []string {
	if u.seesAll() {
		return nil
	}
	return slices.DeleteFunc(append([]string{}, u.Tables...), func(table string) bool { return !u.sees(table) })
}

// visible are tables that a user sees.
type visible struct {
	whole    []string
	byQueue  []string // of which there are some queues only
	otherWay bool     // there are a log or alarms, which have pages of their own
}

// all are the tables of which the user sees anything, by name.
func (v visible) all() []string {
	all := slices.Concat(v.whole, v.byQueue)
	slices.Sort(all)
	return all
}

// visible returns those of the tables that the user sees.
func (u User) visible(tables []string) (v visible) {
	for _, t := range tables {
		if u.sees(t) {
			v.whole = append(v.whole, t)
		} else if len(u.Queues[t]) > 0 {
			v.byQueue = append(v.byQueue, t)
		}
	}
	v.otherWay = u.sees(postgres.LogTable) || u.sees("alarms")
	return v
}

// parts says which parts of tables the user sees.
func (u User) parts(tables []string) string {
	all := make([]string, len(tables))
	for i, t := range tables {
		names := make([]string, len(u.Queues[t]))
		for k, name := range u.Queues[t] {
			names[k] = postgres.Visible(nameOf(name))
		}
		all[i] = t + ": " + strings.Join(names, ", ")
	}
	return strings.Join(all, "; ")
}

// ErrForbidden says that a request comes from a known user, who may not use the dashboard. [Config].Authenticate
// returns it.
var ErrForbidden = errors.New("webui: forbidden")

// A challenge refuses a request for lack of valid credentials, and says which kind it wants.
type challenge struct{ want string }

func (challenge) Error() string { return "no valid credentials" }

// tooMany refuses a request because too many with wrong credentials came from its address.
type tooMany struct{ wait time.Duration }

func (tooMany) Error() string { return "too many attempts with wrong credentials" }

func (t tooMany) retryAfter() string { return strconv.Itoa(int(t.wait/time.Second) + 1) }

// authenticate returns the user of a request.
func (h *handler) authenticate(r *http.Request) (user User, err error) {
	defer contain.Recover(&err)
	if h.Insecure {
		return User{}, nil
	}
	return h.Authenticate(r)
}

// refusalLevel is that of the log for a request that was not authenticated. Browsers ask once without credentials.
func refusalLevel(r *http.Request, err error) slog.Level {
	if errors.As(err, new(challenge)) && r.Header.Get("Authorization") == "" {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// refusal is the page for a request that was not authenticated. It says nothing about the reason.
func refusal(err error) problem {
	var c challenge
	var many tooMany
	switch {
	case errors.As(err, &many):
		return problem{status: http.StatusTooManyRequests, retry: many.retryAfter(), Title: "Too many attempts",
			Detail: "Too many requests with wrong credentials came from this address.",
			Advice: "Wait " + many.retryAfter() + " seconds, and try again."}
	case errors.Is(err, ErrForbidden):
		return problem{status: http.StatusForbidden, Title: "You may not look here",
			Detail: "You are known, but may not use this dashboard.", Advice: "Ask whoever runs it for access."}
	}
	errors.As(err, &c)
	return problem{status: http.StatusUnauthorized, challenge: c.want, Title: "Who are you?",
		Detail: "This dashboard needs credentials, and the request had none that are valid.",
		Advice: "Sign in, and reload the page."}
}
