package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

type named string

func (n named) Kind() string { return string(n) }

type unencodable struct{ C chan int }

func (unencodable) Kind() string { return "unencodable" }

var (
	tooLong = strings.Repeat("x", 256)
	ascii   = "is not valid UTF-8"
)

func TestBadJobsAreRefused(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	o := func(change func(*jobs.Insert)) (o jobs.Insert) { change(&o); return o }
	for name, c := range map[string]struct {
		args    jobs.Args
		options jobs.Insert
		want    string
	}{
		"nil args":            {nil, jobs.Insert{}, "args are nil"},
		"nil pointer":         {(*mail)(nil), jobs.Insert{}, "args are nil"},
		"empty kind":          {named(""), jobs.Insert{}, "kind has 0 bytes, it must have 1 to 255 bytes"},
		"long kind":           {named(tooLong), jobs.Insert{}, "kind has 256 bytes, it must have 1 to 255 bytes"},
		"kind with a NUL":     {named("a\x00"), jobs.Insert{}, "kind has a NUL byte"},
		"kind that is binary": {named("\xff"), jobs.Insert{}, "kind " + ascii},
		"unencodable args": {unencodable{}, jobs.Insert{},
			`args of type jobs_test.unencodable cannot be encoded: json: unsupported type`},
		"args over 1 MiB": {mail{strings.Repeat("x", 1<<20)}, jobs.Insert{},
			"args has 1048585 bytes, it must have at most 1048576 bytes"},
		"long queue":        {mail{}, o(func(o *jobs.Insert) { o.Queue = tooLong }), "queue has 256 bytes"},
		"negative priority": {mail{}, o(func(o *jobs.Insert) { o.Priority = -1 }), "priority is -1"},
		"priority over all": {mail{}, o(func(o *jobs.Insert) { o.Priority = 4 }), "priority is 4, it must be 1 to 3"},
		"negative delay":    {mail{}, o(func(o *jobs.Insert) { o.Delay = -time.Second }), "Delay is -1s"},
		"huge delay": {mail{}, o(func(o *jobs.Insert) { o.Delay = math.MaxInt64 }),
			"Delay is 2562047h47m16.854775807s"},
		"delay and time": {mail{}, o(func(o *jobs.Insert) { o.Delay, o.ScheduledAt = 1, time.Now() }),
			"set one of them"},
		"time too far": {mail{},
			o(func(o *jobs.Insert) { o.ScheduledAt = time.UnixMilli(math.MaxInt64 / 1000) }), "due time is"},
		"negative attempts": {mail{}, o(func(o *jobs.Insert) { o.MaxAttempts = -1 }), "max attempts is -1"},
		"retry with a low cap": {mail{}, o(func(o *jobs.Insert) {
			o.Retry = workqueue.Retry{Growth: workqueue.Linear, Base: time.Second, Cap: time.Millisecond}
		}), "retry has Cap 1ms below its Base 1s"},
		"long headers": {mail{},
			o(func(o *jobs.Insert) { o.Headers = map[string]string{"h": strings.Repeat("x", 64<<10)} }),
			"headers has 65537 bytes"},
		"long unique key": {mail{}, o(func(o *jobs.Insert) {
			o.Unique = &jobs.Unique{Key: tooLong}
		}), "Unique.Key has 256 bytes"},
		"kind that a key would continue": {named("a\x1fb"), jobs.Insert{Unique: &jobs.Unique{Key: "c"}},
			"kind has the character U+001F"},
		"unknown states": {mail{}, o(func(o *jobs.Insert) { o.Unique = &jobs.Unique{While: 1} }),
			"Unique.While is 1,"},
		"unknown conflict": {mail{}, o(func(o *jobs.Insert) { o.Unique = &jobs.Unique{OnConflict: 9} }),
			"Unique.OnConflict is 9,"},
		"empty key": {mail{}, o(func(o *jobs.Insert) { o.ByKey = keyed.Ordered{} }), "ordered key is empty"},
		"key's policy": {mail{}, o(func(o *jobs.Insert) { o.ByKey = keyed.Ordered{Key: "k", OnFailure: 7} }),
			"on failure is 7"},
		"long key": {mail{}, o(func(o *jobs.Insert) { o.ByKey = keyed.Ordered{Key: tooLong} }),
			"ordered key has 256 bytes"},
	} {
		err := f.refuse(c.args, c.options)
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q, want %q", name, err, c.want)
		}
	}
	_, err := f.DB.Pool.Exec(t.Context(), "SELECT "+f.table+`_enqueue(E'a\x1Fb', '{}', unique_key => 'c')`)
	if err == nil || !strings.Contains(err.Error(), "kind must not have the character U+001F") {
		t.Errorf("jobs_enqueue: %v", err)
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 0)
	f.enqueue(named("a\x1fb")) // no key, no harm
}

// panics returns what fn panics with.
func panics(fn func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	fn()
	return ""
}

func TestRegisterPanicsWhereTheProgramCannotHaveMeantIt(t *testing.T) {
	t.Parallel()
	taken := jobs.NewRegistry()
	jobs.Register(taken, nothing[mail], jobs.KindOptions[mail]{})
	for name, c := range map[string]struct {
		register func(*jobs.Registry)
		want     string
	}{
		"twice": {func(r *jobs.Registry) { jobs.Register(taken, nothing[mail], jobs.KindOptions[mail]{}) },
			`txwork: kind "mail" is registered already`},
		"declared twice": {func(r *jobs.Registry) { jobs.Declare(taken, jobs.KindOptions[mail]{}) },
			`txwork: kind "mail" is registered already`},
		"nil handler": {func(r *jobs.Registry) { jobs.Register[mail](r, nil, jobs.KindOptions[mail]{}) },
			"txwork: the handler of jobs_test.mail is nil"},
		"empty kind": {func(r *jobs.Registry) { jobs.Register(r, nothing[named], jobs.KindOptions[named]{}) },
			"txwork: kind is empty"},
		"interface": {func(r *jobs.Registry) { jobs.Register(r, nothing[jobs.Args], jobs.KindOptions[jobs.Args]{}) },
			"txwork: jobs.Args is an interface: a kind needs a type of its own"},
		"priority": {func(r *jobs.Registry) { jobs.Declare(r, jobs.KindOptions[mail]{Priority: 9}) },
			"txwork: Priority is 9, want High, Normal or Low"},
		"retry": {func(r *jobs.Registry) {
			jobs.Declare(r, jobs.KindOptions[mail]{Retry: workqueue.Retry{Growth: 9}})
		}, "txwork: retry has Growth 9, want Constant, Linear, Quadratic or Exponential"},
		"unique key": {func(r *jobs.Registry) {
			jobs.Declare(r, jobs.KindOptions[mail]{Unique: &jobs.Unique{Key: tooLong}})
		}, "txwork: Unique.Key has 256 bytes, the limit is 255"},
		"two unique keys": {func(r *jobs.Registry) {
			jobs.Declare(r, jobs.KindOptions[mail]{Unique: &jobs.Unique{Key: "k"},
				UniqueKey: func(mail) string { return "k" }})
		}, "txwork: Unique has a Key or Fields, and the kind has a UniqueKey or UniqueFields: set one of them"},
		"unique states": {func(r *jobs.Registry) {
			jobs.Register(r, nothing[mail], jobs.KindOptions[mail]{Unique: &jobs.Unique{While: 1}})
		}, "txwork: Unique.While is 1, want WhileDone, WhileFailed or both"},
		"attempts": {func(r *jobs.Registry) { jobs.Declare(r, jobs.KindOptions[mail]{MaxAttempts: -1}) },
			"txwork: max attempts is -1, it must be between 1 and 1000000"},
	} {
		equal(t, name, panics(func() { c.register(jobs.NewRegistry()) }), c.want)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{})
	worker := func(o jobs.WorkerOptions) func() error {
		return func() error { _, err := jobs.NewWorker(f.Pool, f.client, o); return err }
	}
	tx := func(work func(ctx context.Context, tx workqueue.Tx) error) func() error {
		return func() error { return f.try(func(tx workqueue.Tx) error { return work(f.Context(), tx) }) }
	}
	put := func(s jobs.Schedule) func() error {
		return tx(func(ctx context.Context, tx workqueue.Tx) error { return f.client.Schedules().Put(ctx, tx, s) })
	}
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"max args": {func() error { _, err := jobs.Open(jobs.Options{MaxArgs: -1}); return err },
			"MaxArgs is -1 bytes"},
		"schema": {func() error { _, err := jobs.Open(jobs.Options{Schema: "no-schema"}); return err },
			`schema "no-schema" must match`},
		"nil client": {func() error {
			_, err := jobs.NewWorker(f.Pool, nil, jobs.WorkerOptions{})
			return err
		}, "client is nil"},
		"nil pool": {func() error {
			_, err := jobs.NewWorker(nil, f.client, jobs.WorkerOptions{})
			return err
		}, "pool is nil"},
		"no registry at all": {func() error {
			_, err := jobs.NewWorker(f.Pool, bare(f), jobs.WorkerOptions{})
			return err
		}, "Registry is nil, and the client has none"},
		"middleware": {worker(jobs.WorkerOptions{Middleware: []jobs.Middleware{nil}}),
			"Middleware 1 of 1 is nil"},
		"no handler": {func() error { return idle(f).Run(t.Context()) },
			"[default] has no handler: call Register"},
		"no handler to drain": {func() error { _, err := idle(f).Drain(); return err }, "[default] has no handler"},
		"queue twice": {worker(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{}, {Name: jobs.DefaultQueue}}}),
			`Queues name "default" twice`},
		"long queue": {worker(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Name: tooLong}}}),
			"QueueOptions.Name has 256 bytes"},
		"negative concurrency": {worker(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Concurrency: -1}}}),
			"concurrency is -1"},
		"priorities": {worker(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Priorities: []jobs.Priority{7}}}}),
			"Priorities name 7"},
		"unknown": {worker(jobs.WorkerOptions{Unknown: 7}), "Unknown is 7"},
		"paused nothing": {tx(func(ctx context.Context, tx workqueue.Tx) error { return f.client.Pause(ctx, tx, "") }),
			"queue is empty"},
		"negative limit": {tx(func(ctx context.Context, tx workqueue.Tx) error {
			return f.client.SetLimits(ctx, tx, "q", jobs.Limits{MaxRunning: -1})
		}), "MaxRunning is -1"},
		"rate that is none": {tx(func(ctx context.Context, tx workqueue.Tx) error {
			return f.client.SetLimits(ctx, tx, "q", jobs.Limits{Rate: math.NaN()})
		}), "Rate is NaN"},
		"rate beyond floats": {tx(func(ctx context.Context, tx workqueue.Tx) error {
			return f.client.SetLimits(ctx, tx, "q", jobs.Limits{Rate: 1e308})
		}), "Rate is 1e+308"},
		"burst without a rate": {tx(func(ctx context.Context, tx workqueue.Tx) error {
			return f.client.SetLimits(ctx, tx, "q", jobs.Limits{Burst: 3})
		}), "Burst needs a Rate"},
		"page too large": {tx(func(ctx context.Context, tx workqueue.Tx) error {
			_, err := f.client.List(ctx, tx, jobs.Filter{Limit: 1001})
			return err
		}), "Limit is 1001"},
		"nil transaction": {func() error {
			_, err := f.client.Enqueue(t.Context(), nil, jobs.Insert{Args: mail{}})
			return err
		}, "transaction is nil"},
		"schedule of no rule": {put(jobs.Schedule{Name: "s", Expr: "61 * * * *", Args: mail{}}),
			`schedule "s" is refused`},
		"schedule of never": {put(jobs.Schedule{Name: "s", Expr: "0 0 30 2 *", Args: mail{}}), `schedule "s" is`},
		"zone": {put(jobs.Schedule{Name: "s", Expr: "@daily", Zone: "Mars/Olympus", Args: mail{}}),
			`schedule "s" is refused`},
		"rule": {put(jobs.Schedule{Name: "s", Expr: "@daily", Args: mail{}, Rule: schedule.Rule{Jitter: -1}}),
			`schedule "s" is refused`},
	} {
		err := c.do()
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// Middleware may do jobs by itself, and handlers may be registered after the worker is made.
func TestAWorkerMayGetItsHandlersLater(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	passOn := func(next jobs.Handler) jobs.Handler { return next }
	_, err := jobs.NewWorker(f.Pool, bare(f), jobs.WorkerOptions{Middleware: []jobs.Middleware{passOn}})
	f.ok(err)
	kinds := jobs.NewRegistry()
	w, err := jobs.NewWorker(f.Pool, bare(f), jobs.WorkerOptions{Registry: kinds})
	f.ok(err)
	jobs.Register(kinds, func(context.Context, *jobs.Job[mail]) error { return nil }, jobs.KindOptions[mail]{})
	_, err = w.Drain()
	f.ok(err)
}

// bare returns a client without a registry.
func bare(f *fixture) *jobs.Client {
	f.Helper()
	c, err := jobs.Open(jobs.Options{Schema: f.Schema})
	f.ok(err)
	return c
}

// idle returns a worker whose registry is empty.
func idle(f *fixture) *jobs.Worker {
	f.Helper()
	w, err := jobs.NewWorker(f.Pool, f.client, jobs.WorkerOptions{Registry: jobs.NewRegistry()})
	if err != nil {
		f.Fatal(err)
	}
	return w
}
