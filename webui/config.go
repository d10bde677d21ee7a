package webui

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

const (
	// DefaultRefresh is how old the figures of all tables may be.
	DefaultRefresh = 10 * time.Second
	// DefaultTimeout is how long a page may take.
	DefaultTimeout = 10 * time.Second
	// DefaultStatementTimeout is how long a statement of a page may take.
	DefaultStatementTimeout = 2 * time.Second
)

// A Config configures a dashboard. It needs a Pool, and either Authenticate or Insecure.
type Config struct {
	// Pool leads to the database. Its role needs the rights of a viewer (docs/security.md). A pool of the dashboard's
	// own keeps its readers from taking connections of the application.
	Pool *pgxpool.Pool

	// Schema has the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Authenticate says who sends a request. It is called for every request, also concurrently. An error refuses the
	// request: with status 401 unless it wraps [ErrForbidden] or comes from [Accounts]. The error is logged and not
	// shown.
	Authenticate func(*http.Request) (User, error)

	// Insecure lets everybody who reaches the handler look, as a [Viewer]. It is for a handler that only its own
	// machine can reach, or behind a proxy that authenticates.
	Insecure bool

	// HideContent shows payloads and headers to operators only. Viewers see their sizes.
	HideContent bool

	// Redact returns what may be shown of a payload, a header or an error, as text. It is called for each, also
	// concurrently, after Decode. Default: all of it.
	Redact func(Content) string

	// Decode decodes a payload, for example one that is encrypted or compressed, to be shown instead of what is stored.
	// It is called only with payloads of up to 1 MiB, and only for users who see payloads. Default: payloads are shown
	// as they are stored. An error goes to the log only.
	Decode func(context.Context, Content) ([]byte, error)

	// TraceURL is the address of a trace, with {trace} and {span} for the ids of the header traceparent, such as
	// https://jaeger.example/trace/{trace}. Rows with this header then lead there. Default: none do.
	TraceURL string

	// Actions lets users with the role [Operator] change rows, queues, topics and schedules: pages have buttons, and
	// there are routes that take forms. The role of the ActionPool then needs the rights of an operator. What users do
	// is in the table audit, together with their names.
	Actions bool

	// ActionPool leads to the same database, with a role that may act. Forms that users send use it, and nothing else
	// does: the role of the Pool then needs no right to change anything. Default: the Pool.
	ActionPool *pgxpool.Pool

	// Refresh is how old the figures of all tables may be before they are read again, while somebody looks. Up to a
	// minute, they may be fifty times as old as reading them takes. The doctor looks six times less often than every
	// Refresh. Default: [DefaultRefresh].
	Refresh time.Duration

	// Timeout bounds a page, its wait for other pages included. Default: [DefaultTimeout].
	Timeout time.Duration

	// StatementTimeout bounds each statement, in whole milliseconds. Default: [DefaultStatementTimeout].
	StatementTimeout time.Duration

	// Logger gets a line for each page that could not be shown. Default: [slog.Default].
	Logger *slog.Logger
}

// New makes a dashboard. It does not connect to the database: pages say what is wrong with it.
func New(c Config) (http.Handler, error) {
	c.Schema = cmp.Or(c.Schema, workqueue.DefaultSchema)
	c.Refresh = cmp.Or(c.Refresh, DefaultRefresh)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, DefaultStatementTimeout)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.ActionPool = cmp.Or(c.ActionPool, c.Pool)
	db := operate.DB{Pool: c.Pool, Schema: c.Schema, Limit: c.StatementTimeout}
	acts := db
	acts.Pool = c.ActionPool
	h := &handler{Config: c, db: db, acts: acts, reads: make(chan struct{}, maxReads), mux: http.NewServeMux(),
		crossOrigin: http.NewCrossOriginProtection()}
	h.figures.every, h.figures.read, h.sharing.every = c.Refresh, h.readFigures, c.Refresh
	h.route()
	return h, nil
}

func (c Config) validate() error {
	switch {
	case c.Pool == nil:
		return validate.Errorf("Pool", "is nil: set it to a pool of the database that has the tables")
	case c.Authenticate == nil && !c.Insecure:
		return validate.Errorf("Authenticate", "is nil: everybody who reaches the handler could look. Set it, or Insecure "+
			"if only this machine can reach it")
	case c.Authenticate != nil && c.Insecure:
		return validate.Errorf("Insecure", "is set, and so is Authenticate: set one of them")
	case c.TraceURL != "" && (!strings.HasPrefix(c.TraceURL, "https://") && !strings.HasPrefix(c.TraceURL, "http://") ||
		!strings.Contains(c.TraceURL, "{trace}")):
		return validate.Errorf("TraceURL", "is %q, it must be an https or http address with {trace}", c.TraceURL)
	case c.ActionPool != nil && !c.Actions:
		return validate.Errorf("ActionPool", "is set, and nobody may act: set Actions, or leave it out")
	case c.Actions && c.Insecure:
		return validate.Errorf("Actions", "is set, and so is Insecure: nobody would be an operator. Set Authenticate")
	case c.Refresh < 0:
		return validate.Errorf("Refresh", "is %v, it must be positive", c.Refresh)
	case c.Timeout < 0:
		return validate.Errorf("Timeout", "is %v, it must be positive", c.Timeout)
	case c.StatementTimeout < time.Millisecond || c.StatementTimeout%time.Millisecond != 0:
		return validate.Errorf("StatementTimeout", "is %v, it must be whole milliseconds", c.StatementTimeout)
	}
	return validate.Identifier("Schema", c.Schema)
}
