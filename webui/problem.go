package webui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// A problem is a page that says what is wrong and what to do. It is an error, so that what reads a page returns it.
type problem struct {
	Title, Detail, Advice string

	status    int
	challenge string   // of WWW-Authenticate
	retry     string   // of Retry-After
	tables    []string // of the navigation
	rights    string   // the kind of role whose rights are lacking: the advice is to grant them
}

func (p problem) Error() string { return p.Title + ": " + p.Detail }

var (
	notFound = problem{status: http.StatusNotFound, Title: "There is no such page",
		Detail: "The address names none of the pages of this dashboard.", Advice: "Go on from the overview."}
	readOnly = problem{status: http.StatusMethodNotAllowed, Title: "This dashboard only shows",
		Detail: "The request asks for a change. Nothing was changed.", Advice: "Use the txwork command to change rows."}
	noAction = problem{status: http.StatusMethodNotAllowed, Title: "There is no such action",
		Detail: "The address names none of the actions of this dashboard. Nothing was changed.",
		Advice: "Go on from the overview."}
	foreign = problem{status: http.StatusForbidden, Title: "The request comes from another site",
		Detail: "A page of another site sent this request. Nothing was changed.", Advice: "Go on from the overview."}
	busy = problem{status: http.StatusServiceUnavailable, retry: "5", Title: "Too many pages at once",
		Detail: "Other pages are being read, and this one had no turn in time.",
		Advice: "Reload the page in some seconds."}
)

var badTime = problem{status: http.StatusBadRequest, Title: "The address is wrong",
	Detail: "The time in the address of this page cannot be read. It may have been cut off or changed.",
	Advice: "Begin at the first page of the list."}

func noTables(schema string) problem {
	return problem{status: http.StatusServiceUnavailable, Title: "The schema has no tables",
		Detail: fmt.Sprintf("Schema %s has no tables of txwork, or the role of this dashboard cannot see them.", schema),
		Advice: "Run " + postgres.Command(schema, "migrate", "up") + ", or name another schema in the configuration."}
}

func noTable(schema, name string, known []string) problem {
	p := problem{status: http.StatusNotFound, Title: "There is no such table", tables: known,
		Detail: fmt.Sprintf("Schema %s has no table %s that you may see.", schema, postgres.Name(name)),
		Advice: "Go on from the overview."}
	if len(known) > 0 {
		p.Advice = "It has " + strings.Join(known, ", ") + "."
	}
	return p
}

func noID(known []string) problem {
	return problem{status: http.StatusNotFound, Title: "This is no id", tables: known,
		Detail: "Ids are UUIDs, such as 01976f3c-6f5e-7c3a-9d1b-5a0c2f4e8b17.",
		Advice: "Copy the whole id, or go on from the lists."}
}

// explain makes a page of an error. Errors of the database that have no explanation of their own go to the log only,
// with a number by which whoever runs the program finds them.
func (h *handler) explain(ctx context.Context, what string, err error) problem {
	var p problem
	if errors.As(err, &p) {
		return p
	}
	p, known := h.known(err)
	log := h.Logger.WarnContext
	if !known {
		number := uuid.NewString()
		p = problem{status: http.StatusInternalServerError, Title: "The page could not be read",
			Detail: "Something went wrong that this page knows no explanation for.",
			Advice: "Look for " + number + " in the log of the program."}
		log = h.Logger.ErrorContext
		err = fmt.Errorf("%s: %w", number, err)
	}
	gone := errors.Is(ctx.Err(), context.Canceled) // whoever asked, and with them the statement
	if p.status >= http.StatusInternalServerError && !closed(err) && !gone {
		log(ctx, "dashboard: reading failed", "what", what, "error", err)
	}
	return p
}

// known explains the errors that readers can do something about.
func (h *handler) known(err error) (p problem, ok bool) {
	var refusal operate.Refusal
	var gone operate.GoneError
	var unsent operate.NoMessageError
	var unseen operate.UnseenError
	var audit operate.AuditError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &refusal):
		return problem{status: http.StatusBadRequest, Title: "This cannot be asked of the table",
			Detail: postgres.Visible(refusal.Error()), Advice: "Change the filter, or begin at the first page."}, true
	case errors.As(err, &gone):
		return problem{status: http.StatusNotFound, Title: "The row is not there",
			Detail: gone.Error() + ": it was never written, or it has been deleted, as rows are when their retention " +
				"ends.", Advice: "Look for it in the lists."}, true
	case errors.As(err, &unsent):
		return problem{status: http.StatusNotFound, Title: "The message is not there", Detail: unsent.Error() + ".",
			Advice: "Check the id, or look for it in the table of parked messages."}, true
	case errors.As(err, &unseen):
		return problem{status: http.StatusConflict, Title: "The message cannot be shown",
			Detail: postgres.Visible(unseen.Error()) + ".", Advice: "Do what the message says, or look again later."}, true
	case errors.As(err, &audit) && audit.Advice != "":
		return problem{status: http.StatusServiceUnavailable, Title: "The audit cannot record this",
			Detail: "Nothing is changed here that the audit does not record. Nothing was changed.",
			Advice: "Whoever runs this dashboard: " + postgres.Visible(audit.Advice) + "."}, true
	case errors.Is(err, workqueue.ErrSchemaVersion):
		return problem{status: http.StatusServiceUnavailable, Title: "The table does not fit this version",
			Detail: postgres.Visible(err.Error()), Advice: "Do what the message says, and reload the page."}, true
	case errors.As(err, &pg):
		return h.ofServer(pg)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return slow, true
	case errors.As(err, new(*pgconn.ConnectError)), pgconn.SafeToRetry(err), closed(err):
		return unreachable, true
	}
	return problem{}, false
}

// closed tells whether the pool was closed, as it is when the program ends while figures are read. The error has no
// type that pgx exports.
func closed(err error) bool { return strings.HasSuffix(err.Error(), "closed pool") }

var (
	slow = problem{status: http.StatusGatewayTimeout, retry: "10", Title: "This took too long",
		Detail: "The database did not answer in time, so the page gave up.",
		Advice: "Reload the page. If it happens again, ask for less: a state with fewer rows, or a narrower filter."}
	locked = problem{status: http.StatusServiceUnavailable, retry: "10", Title: "A table is locked",
		Detail: "Another session, such as a migration, has locked a table.", Advice: "Reload the page in some seconds."}
	unreachable = problem{status: http.StatusServiceUnavailable, retry: "10", Title: "The database cannot be reached",
		Detail: "The dashboard has no connection to the database.",
		Advice: "Reload the page when the database runs. The log of the program says more."}
)

// ofServer explains what the server refused.
func (h *handler) ofServer(pg *pgconn.PgError) (p problem, ok bool) {
	switch {
	case pg.Code == "42501": // insufficient_privilege
		return problem{status: http.StatusServiceUnavailable, Title: "The dashboard lacks a right",
			Detail: "The role of this dashboard may not do what the page needs: " + postgres.Visible(pg.Message) + ".",
			rights: requested}, true
	case pg.Code == "57014": // query_canceled
		return slow, true
	case pg.Code == "55P03": // lock_not_available
		return locked, true
	case pg.Code == "42P01", pg.Code == "42703", pg.Code == "42883", pg.Code == "3F000": // undefined table and the like
		return problem{status: http.StatusServiceUnavailable, Title: "The schema does not fit this version",
			Detail: "The database lacks something that this version reads: " + postgres.Visible(pg.Message) + ".",
			Advice: "Run " + postgres.Command(h.Schema, "migrate", "validate") + ", which says what is missing."}, true
	case strings.HasPrefix(pg.Code, "22"): // data exception: only what the address names is converted
		return problem{status: http.StatusBadRequest, Title: "The address is wrong",
			Detail: "A value in the address of this page cannot be read. It may have been cut off or changed.",
			Advice: "Begin at the first page of the list."}, true
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"), pg.Code == "53300", pg.Code == "28P01",
		pg.Code == "28000", pg.Code == "3D000": // connections
		return unreachable, true
	}
	return problem{}, false
}

// requested stands for the kind of role that a request needs.
const requested = "requested"

// grant says how the role that the request used gets the rights of a kind of role.
func (r *request) grant(ctx context.Context, kind string) string {
	if kind == requested {
		kind = "viewer"
		if r.form != nil || r.handler.Actions && r.handler.ActionPool == r.handler.Pool {
			kind = "operator"
		}
	}
	schema := r.handler.Schema
	var g postgres.Grantee
	err := r.db().Read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, postgres.SelectGrantee, kind, schema).Scan(g.Fields()...)
	})
	if err != nil {
		return "Grant its role the rights of a " + kind + ": txwork roles prints the SQL."
	}
	text := g.Grant(kind, schema)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
