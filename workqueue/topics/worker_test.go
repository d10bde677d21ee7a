package topics_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// A letter has the columns of a table with topics.
type letter struct {
	topic string
	text  *string
}

type handler func(*letter) error

// post is a table of letters in a schema of its own.
type post struct {
	*testing.T
	*pgtest.DB
	table *workqueue.Table
}

func newPost(t *testing.T) *post {
	t.Helper()
	db := pgtest.New(t)
	spec := workqueue.Spec{Schema: db.Schema, Table: "letters", Columns: []workqueue.Column{
		{Name: "topic", Type: "text", NotNull: true}, {Name: "text", Type: "text"},
	}}
	p := &post{T: t, DB: db}
	up, _, err := spec.DDL()
	p.ok(err)
	db.Define(t, up)
	p.table, err = workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	p.ok(err)
	return p
}

func (p *post) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *post) send(topics ...string) {
	p.Helper()
	p.ok(pgx.BeginFunc(p.Context(), p.Pool, func(tx pgx.Tx) error {
		for _, topic := range topics {
			if _, err := p.table.Insert(p.Context(), workqueue.Pgx(tx),
				workqueue.NewRow{Values: []any{topic, "to " + topic}}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// worker makes a worker that leaves out the columns that its handlers do not use.
func (p *post) worker(read func(*letter, *workqueue.Columns), before ...*workqueue.Worker) *topics.Worker[handler] {
	p.Helper()
	w, err := topics.NewWorker(p.Pool, topics.Domain[handler, letter]{
		Domain: workqueue.Domain[letter]{Table: p.table, Columns: read},
		Name:   "mailbox",
		Runner: "postman",
		Topic:  func(l *letter) string { return l.topic },
		Handle: func(_ context.Context, c *workqueue.Claim[letter], h handler) error { return h(&c.Body) },
		Before: before,
	}, workqueue.WorkerOptions{})
	p.ok(err)
	return w
}

func whole(l *letter, c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "topic"}, &l.topic)
	c.Field(workqueue.Column{Name: "text"}, &l.text)
}

func topicOnly(l *letter, c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "topic"}, &l.topic)
	c.Field(workqueue.Column{Name: "text"}, nil)
}

func (p *post) drained(d *workqueue.Drain, err error) workqueue.Stats {
	p.Helper()
	p.ok(err)
	_, err = d.Process(p.Context())
	p.ok(err)
	stats, err := p.table.On(p.Pool).Stats(p.Context())
	p.ok(err)
	return stats
}

func TestRowsGoToTheHandlersOfTheirTopics(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.send("a", "b", "c")
	w := p.worker(whole)
	got := map[string]string{}
	note := func(name string) handler {
		return func(l *letter) error { got[l.topic] = name + " " + *l.text; return nil }
	}
	w.Handle("a", note("A"))
	w.HandleAll(note("all"))
	err := pgx.BeginFunc(t.Context(), p.Pool, func(tx pgx.Tx) error { // handlers one after the other
		d, err := w.DrainIn(tx)
		if err == nil {
			_, err = d.Process(t.Context())
		}
		return err
	})
	p.ok(err)
	if len(got) != 3 || got["a"] != "A to a" || got["b"] != "all to b" || got["c"] != "all to c" {
		t.Errorf("handled %v", got)
	}
}

func TestARowWithoutHandlerIsRetried(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.send("known", "unknown")
	w := p.worker(topicOnly)
	w.Handle("known", func(l *letter) error {
		if l.text != nil {
			t.Errorf("a column that is not looked at was read: %q", *l.text)
		}
		return nil
	})
	if s := p.drained(w.Drain()); s.Live() != 1 || s.Scheduled != 1 {
		t.Errorf("left are %+v, want one that is retried", s)
	}
}

func TestWhatRunsBeforeIsDrainedFirst(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.send("first", "second")
	var order []string
	first := p.worker(topicOnly)
	first.Handle("first", func(l *letter) error { order = append(order, "before"); return nil })
	first.Handle("second", func(l *letter) error { return workqueue.Snooze(time.Hour) })
	_, err := first.Drain() // fixes its handlers
	p.ok(err)
	w := p.worker(topicOnly, first.Workers()...)
	w.HandleAll(func(*letter) error { order = append(order, "after"); return nil })
	p.drained(w.Drain())
	if strings.Join(order, " ") != "before" {
		t.Errorf("handled %v", order)
	}
	if n := len(w.Workers()); n != 2 || len(w.Tables()) != 1 {
		t.Errorf("%d workers of %d tables", n, len(w.Tables()))
	}
}

func TestAWorkerNeedsAHandler(t *testing.T) {
	t.Parallel()
	w := newPost(t).worker(whole)
	_, drain := w.Drain()
	_, drainIn := w.DrainIn(nil)
	for _, err := range []error{w.Run(t.Context()), drain, drainIn} {
		if err == nil || !strings.HasPrefix(err.Error(), "txwork: the postman of "+w.Tables()[0].Name()+
			" has no handler") {
			t.Errorf("got %v", err)
		}
	}
}

func TestARunningWorkerIsWoken(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	w := p.worker(whole)
	ctx, stop := context.WithCancel(t.Context())
	w.HandleAll(func(*letter) error { stop(); return nil })
	p.send("a")
	w.Wake()
	p.ok(w.SetConcurrency(1))
	p.ok(w.Run(ctx))
	if s, err := p.table.On(p.Pool).Stats(t.Context()); err != nil || s.Live() != 0 {
		t.Errorf("left are %+v, %v", s, err)
	}
}
