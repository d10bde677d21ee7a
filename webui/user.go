package webui

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
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
	// them. Default: all; an empty slice that is not nil is none. A user of some tables does not see findings about the
	// server as a whole, which may concern others.
	Tables []string
}

func (u User) seesAll() bool { return u.Tables == nil }

func (u User) sees(table string) bool { return u.seesAll() || slices.Contains(u.Tables, table) }

// visible returns those of the tables that the user sees.
func (u User) visible(tables []string) []string {
	return slices.DeleteFunc(slices.Clone(tables), func(t string) bool { return !u.sees(t) })
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
func (h *handler) authenticate(r *http.Request) (User, error) {
	if h.Insecure {
		return User{}, nil
	}
	return h.Authenticate(r)
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
