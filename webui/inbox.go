package webui

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/survey"
)

// Bounds of the pages of the inbox and of alarms.
const (
	maxSources        = 50
	maxSourceMessages = 200 // that are counted of each source
	maxAlarms         = 100
	maxFailing        = 20
)

// An inboxPage is what inbox.html shows.
type inboxPage struct {
	Tables           []inboxTable
	Consumer, Source string // after which the sources go on
}

// An inboxTable is the sources of a table of messages.
type inboxTable struct {
	Name    string
	Sources []sourceLine
	Next    *survey.Source
	Problem string
}

// A sourceLine is a source. Its messages may be a lower bound.
type sourceLine struct {
	survey.Source
	AtLeast bool
}

// inbox shows where messages come from.
func inbox(ctx context.Context, r *request) (view, error) {
	v := view{title: "Inbox", page: "inbox.html"}
	all, err := r.sections(ctx, &v, func(t *survey.Facts) bool {
		return t.Has("consumer") && t.Has("source") && t.Has("message_id")
	})
	if err != nil {
		return view{}, err
	}
	p := inboxPage{Consumer: r.query.Get("consumer"), Source: r.query.Get("source")}
	for _, t := range all {
		one := inboxTable{Name: t.Name}
		found, err := survey.Sources(ctx, r.handler.reader(), t, p.Consumer, p.Source, maxSources+1, maxSourceMessages)
		if err != nil {
			one.Problem = r.handler.explain(ctx, "sources of "+t.Name, err).Error()
		}
		for _, s := range found[:min(len(found), maxSources)] {
			one.Sources = append(one.Sources, sourceLine{s, t.Filtered || s.Messages >= maxSourceMessages})
		}
		if len(found) > maxSources {
			one.Next = &found[maxSources-1]
		}
		p.Tables = append(p.Tables, one)
	}
	v.data = p
	return v, nil
}

// An alarmsPage is what alarms.html shows.
type alarmsPage struct {
	There   bool
	Now     time.Time
	Failing []survey.Alarm
	Alarms  []survey.Alarm
	Next    *survey.Alarm // the last of the page, if there are more
	After   string
}

// alarms shows the next wakes.
func alarms(ctx context.Context, r *request) (view, error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Alarms", page: "alarms.html", tables: tables}
	p := alarmsPage{Now: time.Now(), After: r.query.Get("after")}
	there, filtered, err := survey.Alarms(ctx, r.handler.reader(), r.handler.Schema)
	if err != nil {
		return view{}, err
	}
	if p.There = there && r.user.sees("alarms"); !p.There {
		v.data = p
		return v, nil
	}
	if filtered {
		v.partial = append(v.partial, "alarms")
	}
	after, id := time.Unix(0, 0), uuid.Nil
	if p.After != "" {
		if after, err = time.Parse(time.RFC3339Nano, p.After); err != nil {
			return view{}, badTime
		}
		if id, err = uuid.Parse(r.query.Get("id")); err != nil {
			return view{}, noID(tables)
		}
	} else if p.Failing, err = survey.FailingAlarms(ctx, r.handler.reader(), r.handler.Schema, maxFailing); err != nil {
		return view{}, err
	}
	found, err := survey.NextAlarms(ctx, r.handler.reader(), r.handler.Schema, after, id.String(), maxAlarms+1)
	if err != nil {
		return view{}, err
	}
	if p.Alarms = found; len(found) > maxAlarms {
		p.Alarms, p.Next = found[:maxAlarms], &found[maxAlarms-1]
	}
	for _, list := range [][]survey.Alarm{p.Failing, p.Alarms} {
		for i := range list {
			list[i].Error = r.handler.errorOf("alarms", list[i].Error)
		}
	}
	v.data = p
	return v, nil
}
