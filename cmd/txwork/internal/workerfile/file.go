package workerfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A File is the content of a worker file. A section that is missing is nil.
type File struct {
	Database Database
	Health   string // address of the probes; empty for none
	Shutdown time.Duration
	Reaper   bool
	// ReapEvery is the longest pause between two rounds of maintenance; 0: the default of package reaper.
	ReapEvery time.Duration

	Outbox *Outbox
	Inbox  *Inbox
	Timers *Timers
	Jobs   *Jobs
}

// A Database says where the tables are, unless the command line does.
type Database struct {
	URL            string
	Variables      []string // of the environment, that URL refers to
	Schema         string
	MaxConnections int // for handlers; 0: as many as they need
}

// A Serving says how a section's rows are worked on.
type Serving struct {
	Concurrency int // 0: the default
	Lease       time.Duration
	RunsWithin  time.Duration // see [workqueue.WorkerOptions]; by default longer than every timeout of the section
}

// An Outbox is the section outbox.
type Outbox struct {
	Consumer
	Subscriptions map[string]*Consumer // of an outbox that is a log, in place of the one consumer of rows
	Options       outbox.Options
}

// An Inbox is the section inbox.
type Inbox struct {
	Options   inbox.Options
	Consumers map[string]*Consumer
}

// A Consumer is a consumer of the inbox, or delivers the messages of an outbox or of one subscription of a log.
type Consumer struct {
	Serving
	Topics Handlers
	Make   *outbox.Subscription // the subscription that is made if it does not exist; nil: it is waited for
}

// Timers are the section timers.
type Timers struct {
	Serving
	Options timers.Options
	Topics  Handlers
}

// Jobs are the section jobs.
type Jobs struct {
	Lease      time.Duration
	RunsWithin time.Duration // as in Serving
	Options    jobs.Options
	Unknown    jobs.Unknown
	Queues     []jobs.QueueOptions
	Kinds      Handlers
}

// Read reads a file. The error is a [*Problems]. Getenv looks up the variables that ${NAME} refers to.
func Read(name string, text []byte, getenv func(string) (string, bool)) (*File, error) {
	r := &reader{getenv: getenv}
	f := &File{Shutdown: workqueue.DefaultShutdownTimeout, Reaper: true}
	if root, err := parse(text); err != nil {
		r.problems = []Problem{*err}
	} else {
		r.file(value{node: root}, f)
	}
	if len(r.problems) > 0 {
		return nil, &Problems{name, r.sorted()}
	}
	return f, nil
}

// parse parses the file, which must be a single document.
func parse(text []byte) (ast.Node, *Problem) {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok && syntax.GetToken() != nil {
			at := syntax.GetToken().Position
			return nil, &Problem{Line: at.Line, Column: at.Column, Message: syntax.GetMessage()}
		}
		return nil, &Problem{Message: err.Error()}
	}
	switch {
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil:
		return nil, &Problem{Message: "the file is empty"}
	case len(tree.Docs) > 1:
		at := tree.Docs[1].Start.Position
		return nil, &Problem{Line: at.Line, Column: at.Column, Message: "there is a second document: want one"}
	}
	return tree.Docs[0].Body, nil
}

// minShutdown leaves enough time to settle rows whose handlers are killed.
const minShutdown = time.Second

func (r *reader) file(root value, f *File) {
	if _, mapping := root.node.(ast.MapNode); !mapping {
		r.mapping(root, nil)
		return
	}
	r.each(root, func(name string, v value) { // read first, because the limits of commands depend on it
		if name == "shutdown" {
			r.duration(&f.Shutdown, minShutdown, time.Hour)(v)
		}
	})
	s := &sections{r, f.Shutdown}
	r.mapping(root, fields{
		"database":   func(v value) { r.database(v, &f.Database) },
		"health":     r.text(&f.Health),
		"shutdown":   func(value) {},
		"reaper":     r.boolean(&f.Reaper),
		"reap_every": r.duration(&f.ReapEvery, time.Second, reaper.MaxInterval),
		"outbox":     func(v value) { f.Outbox = s.outbox(v) },
		"inbox":      func(v value) { f.Inbox = s.inbox(v) },
		"timers":     func(v value) { f.Timers = s.timers(v) },
		"jobs":       func(v value) { f.Jobs = s.jobs(v) },
	})
	if len(r.problems) == 0 && f.Outbox == nil && f.Inbox == nil && f.Timers == nil && f.Jobs == nil {
		r.problems = append(r.problems, Problem{Message: "the file serves nothing: want a section outbox, inbox, " +
			"timers or jobs"})
	}
}

// maxConnections is more than any server allows.
const maxConnections = 10_000

func (r *reader) database(v value, d *Database) {
	r.mapping(v, fields{
		"url":             func(v value) { d.Variables = r.expand(v, &d.URL) },
		"schema":          r.text(&d.Schema),
		"max_connections": r.integer(&d.MaxConnections, 1, maxConnections),
	})
	if d.Schema != "" {
		r.refuse(v, validate.Identifier("schema", d.Schema))
	}
}

// sections reads the sections of the domains.
type sections struct {
	*reader
	shutdown time.Duration
}

// maxConcurrency bounds the processes and requests of one worker.
const maxConcurrency = 10_000

// with adds the fields that say how rows are worked on.
func (s *sections) with(all fields, serving *Serving) fields {
	all["concurrency"] = s.integer(&serving.Concurrency, 1, maxConcurrency)
	all["lease"] = s.lease(&serving.Lease)
	all["runs_within"] = s.runsWithin(&serving.RunsWithin)
	return all
}

func (s *sections) lease(to *time.Duration) func(value) {
	return s.duration(to, workqueue.MinLease, workqueue.MaxLease)
}

func (s *sections) runsWithin(to *time.Duration) func(value) {
	return s.duration(to, time.Second, input.MaxDuration)
}

// kept adds the fields about retries and retention of a table.
func (s *sections) kept(all fields, retry *workqueue.Retry, retention, failedRetention *time.Duration) fields {
	all["retry"] = s.retry(retry)
	all["retention"] = s.duration(retention, time.Second, input.MaxDuration)
	all["failed_retention"] = s.duration(failedRetention, time.Second, input.MaxDuration)
	return all
}

// need reports a missing field.
func (s *sections) need(v value, there bool, field, why string) {
	if _, mapping := v.node.(ast.MapNode); mapping && !there {
		s.report(v, "has no %s: %s", field, why)
	}
}

func (s *sections) outbox(v value) *Outbox {
	b := &Outbox{Subscriptions: map[string]*Consumer{}}
	o := &b.Options
	s.mapping(v, s.kept(s.with(fields{
		"subscriptions": func(v value) {
			s.each(v, func(name string, v value) { b.Subscriptions[name] = s.subscription(name, v, o) })
		},
		"topics": s.handlers(&b.Topics, "topic", outbox.MaxTopic, DefaultTimeout),
	}, &b.Serving), &o.Retry, &o.Retention, &o.FailedRetention))
	s.need(v, b.Topics != nil || len(b.Subscriptions) > 0, "topics", "say which messages are delivered")
	if len(b.Subscriptions) > 0 {
		s.logOnly(v, b)
	}
	_, err := outbox.Open(b.Options)
	s.refuse(v, err)
	return b
}

// maxSubscription is how long the name of a subscription may be.
const maxSubscription = 48

// subscription reads who delivers a subscription. An outbox that has one is a log.
func (s *sections) subscription(name string, v value, o *outbox.Options) *Consumer {
	o.Storage = outbox.Log
	s.name(v, "subscription", name, maxSubscription)
	c := new(Consumer)
	all := s.consumed(c)
	all["make"] = func(v value) { c.Make = s.subscriptionToMake(name, v) }
	s.mapping(v, all)
	s.need(v, c.Topics != nil, "topics", "say which messages are delivered")
	return c
}

// subscriptionToMake reads what a subscription is made with.
func (s *sections) subscriptionToMake(name string, v value) *outbox.Subscription {
	m := &outbox.Subscription{Name: name}
	if _, empty := v.node.(*ast.NullNode); empty {
		return m
	}
	var messages int
	s.mapping(v, fields{
		"topics": func(v value) {
			s.texts(&m.Topics)(v)
			if list, ok := v.node.(*ast.SequenceNode); ok && len(list.Values) == 0 {
				s.report(v, "is empty: leave it out for all topics")
			}
		},
		"headers": func(v value) {
			m.Headers = map[string]string{}
			s.each(v, func(name string, v value) {
				if text, ok := s.scalar(v); ok {
					m.Headers[name] = text
				}
			})
		},
		"start": choice(s.reader, &m.From, map[string]outbox.Start{"now": outbox.Now,
			"beginning": outbox.Beginning}),
		"lanes":        s.integer(&m.Lanes, 1, postgres.LogLanes),
		"max_age":      s.duration(&m.MaxAge, time.Second, postgres.LogMaxAge),
		"max_messages": s.integer(&messages, 1, postgres.LogMaxMessages),
	})
	m.MaxMessages = int64(messages)
	return m
}

// logOnly refuses what a log has fixed, or in each of its subscriptions.
func (s *sections) logOnly(v value, b *Outbox) {
	o := &b.Options
	if b.Topics != nil || b.Serving != (Serving{}) {
		s.report(v, "has subscriptions, so topics, concurrency, lease and runs_within are those of each of them")
	}
	if (o.Retry != workqueue.Retry{} || o.Retention != 0 || o.FailedRetention != 0) {
		s.report(v, "has subscriptions, so it cannot have retry, retention or failed_retention: those of a log are fixed")
		o.Retry, o.Retention, o.FailedRetention = workqueue.Retry{}, 0, 0
	}
}

func (s *sections) inbox(v value) *Inbox {
	b := &Inbox{Consumers: map[string]*Consumer{}}
	o := &b.Options
	s.mapping(v, s.kept(fields{
		"dedup_window": s.duration(&o.DedupWindow, time.Second, input.MaxDuration),
		"consumers": func(v value) {
			s.each(v, func(name string, v value) {
				s.name(v, "consumer", name, inbox.MaxKeyPart)
				b.Consumers[name] = s.consumer(v, "say which messages are processed")
			})
		},
	}, &o.Retry, &o.Retention, &o.FailedRetention))
	s.need(v, len(b.Consumers) > 0, "consumers", "say whose messages are processed")
	_, err := inbox.Open(b.Options)
	s.refuse(v, err)
	return b
}

func (s *sections) consumer(v value, why string) *Consumer {
	c := new(Consumer)
	s.mapping(v, s.consumed(c))
	s.need(v, c.Topics != nil, "topics", why)
	return c
}

func (s *sections) consumed(c *Consumer) fields {
	return s.with(fields{"topics": s.handlers(&c.Topics, "topic", inbox.MaxTopic, DefaultTimeout)}, &c.Serving)
}

func (s *sections) timers(v value) *Timers {
	t := new(Timers)
	o := &t.Options
	s.mapping(v, s.kept(s.with(fields{
		"topics": s.handlers(&t.Topics, "topic", timers.MaxTopic, DefaultTimeout),
	}, &t.Serving), &o.Retry, &o.Retention, &o.FailedRetention))
	s.need(v, t.Topics != nil, "topics", "say which timers are fired")
	_, err := timers.Open(t.Options)
	s.refuse(v, err)
	return t
}

func (s *sections) jobs(v value) *Jobs {
	j := new(Jobs)
	o := &j.Options
	s.mapping(v, s.kept(fields{
		"lease":       s.lease(&j.Lease),
		"runs_within": s.runsWithin(&j.RunsWithin),
		"unknown": choice(s.reader, &j.Unknown, map[string]jobs.Unknown{"retry": jobs.RetryUnknown,
			"leave": jobs.LeaveUnknown}),
		"queues": func(v value) {
			s.each(v, func(name string, v value) { j.Queues = append(j.Queues, s.queue(name, v)) })
		},
		"kinds": s.handlers(&j.Kinds, "kind", jobs.MaxKind, DefaultJobTimeout),
	}, &o.Retry, &o.Retention, &o.FailedRetention))
	s.need(v, j.Kinds != nil, "kinds", "say which jobs are done")
	_, err := jobs.Open(j.Options)
	s.refuse(v, err)
	return j
}

func (s *sections) queue(name string, v value) jobs.QueueOptions {
	q := jobs.QueueOptions{Name: name}
	s.name(v, "queue", name, jobs.MaxQueue)
	if _, empty := v.node.(*ast.NullNode); empty {
		return q
	}
	var names []string
	s.mapping(v, fields{
		"concurrency": s.integer(&q.Concurrency, 1, maxConcurrency),
		"priorities":  s.texts(&names),
	})
	for _, name := range names {
		p, known := map[string]jobs.Priority{"high": jobs.High, "normal": jobs.Normal, "low": jobs.Low}[name]
		if !known {
			s.report(v, "has priority %q: want high, normal or low", name)
		}
		q.Priorities = append(q.Priorities, p)
	}
	return q
}

// Serves describes what the file serves, for people.
func (f *File) Serves() (all []string) {
	if f.Outbox != nil {
		for _, name := range slices.Sorted(maps.Keys(f.Outbox.Subscriptions)) {
			all = append(all, count("outbox, subscription "+name, len(f.Outbox.Subscriptions[name].Topics), "topic"))
		}
		if len(all) == 0 {
			all = append(all, count("outbox", len(f.Outbox.Topics), "topic"))
		}
	}
	if f.Inbox != nil {
		for _, name := range slices.Sorted(maps.Keys(f.Inbox.Consumers)) {
			all = append(all, count("inbox of "+name, len(f.Inbox.Consumers[name].Topics), "topic"))
		}
	}
	if f.Timers != nil {
		all = append(all, count("timers", len(f.Timers.Topics), "topic"))
	}
	if f.Jobs != nil {
		all = append(all, count("jobs", len(f.Jobs.Kinds), "kind"))
	}
	return all
}

func count(section string, n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s (%d %s)", section, n, noun)
}
