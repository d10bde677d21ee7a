package webui

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

// maxShownLosses is how many losses are on a page.
const maxShownLosses = 50

// A logsPage is what logs.html shows.
type logsPage struct {
	Log    *operate.Log // nil if the schema has none
	Now    time.Time
	Losses []survey.Loss
	Parked string // the table of parked messages, if the user sees it
}

// log returns the log of the schema if the user sees it, or nil.
func (r *request) log(ctx context.Context) (*survey.Log, error) {
	l, err := survey.LogOf(ctx, r.handler.reader(), r.handler.Schema)
	if err != nil || l == nil || !r.user.sees(l.Name) {
		return nil, err
	}
	return l, nil
}

// logs shows how far the subscriptions of a log are behind.
func logs(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Log and subscriptions", page: "logs.html", tables: tables}
	l, err := r.log(ctx)
	if err != nil || l == nil {
		v.data = logsPage{}
		return v, err
	}
	p := logsPage{Now: time.Now()}
	if l.Filtered {
		v.partial = append(v.partial, l.Name)
	}
	found, err := operate.ReadLog(ctx, r.handler.reader(), l)
	if err != nil {
		return view{}, err
	}
	p.Log = &found
	for i := range found.Subscriptions {
		if rest := found.Subscriptions[i].Rest; rest != nil {
			rest.Cause = r.handler.errorOf(l.Name, rest.Cause)
		}
	}
	if !l.Filtered {
		if p.Losses, err = survey.Losses(ctx, r.handler.reader(), l, maxShownLosses); err != nil {
			return view{}, err
		}
	}
	if has(tables, l.Parked()) {
		p.Parked = l.Parked()
	}
	v.data = p
	return v, nil
}

// A messagePage is what message.html shows.
type messagePage struct {
	*operate.LogMessage
	Search  operate.MessageSearch
	Next    string // where a search goes on that has not found the message yet
	Name    string // of the log
	Parked  string // the table of parked messages
	Headers block
	Payload payloadBlock
	Hidden  bool
	Trace   string
}

// message shows a message of a log, or how far it was searched for.
func message(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return view{}, noID(tables)
	}
	l, err := r.log(ctx)
	if err != nil {
		return view{}, err
	}
	if l == nil {
		return view{}, problem{status: http.StatusNotFound, Title: "There is no log", tables: tables,
			Detail: fmt.Sprintf("Schema %s has no outbox that is a log and that you may see.", r.handler.Schema),
			Advice: "Go on from the overview."}
	}
	p := messagePage{Name: l.Name, Parked: l.Parked(), Hidden: r.hidesContent()}
	if p.Search, err = operate.SearchMessage(id, r.query.Get("after")); err != nil {
		return view{}, err
	}
	p.LogMessage, err = r.db().FindMessage(ctx, l, &p.Search, operate.MaxSearched, r.content())
	if err != nil {
		return view{}, err
	}
	if p.LogMessage == nil {
		p.Next = p.Search.Place()
	} else if !p.Hidden {
		headers := headersOf(p.LogMessage.Headers)
		p.Headers = r.handler.headers(l.Name, p.LogMessage.Headers)
		p.Payload = r.handler.payload(ctx, Content{Table: l.Name, Name: "payload", Headers: headers},
			p.LogMessage.Payload)
		p.Trace = r.handler.trace(headers)
	}
	return view{title: "Message " + id.String(), page: "message.html", data: p, tables: tables}, nil
}

// findMessage leads to a message.
func findMessage(_ context.Context, r *request) (view, error) {
	id, err := uuid.Parse(strings.TrimSpace(r.query.Get("id")))
	if err != nil {
		return view{}, noID(nil)
	}
	return view{to: "logs/" + id.String()}, nil
}
