package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

// encrypted is a codec that encrypts the output of the default codec, with the named key.
func encrypted(t *testing.T, key string) codec.Codec {
	t.Helper()
	c, err := aesgcm.New(aesgcm.Options{
		Current: aesgcm.Key{ID: key, Secret: bytes.Repeat([]byte(key[:1]), 32)},
		Inner:   jobs.DefaultCodec{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tenant(name string) map[string]string { return map[string]string{codec.TenantHeader: name} }

func TestACodecSealsWhatIsStored(t *testing.T) {
	t.Parallel()
	f := newJobs(t, func(o *jobs.Options) { o.Codec = encrypted(t, "a") })
	got := make(chan string, 10)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		got <- job.Args.To
		for range 2 { // the second call returns the recorded result
			if text, err := jobs.Step(ctx, job, "greet", func(context.Context) (string, error) {
				return "secret",
					nil
			}); err != nil || text != "secret" {
				return fmt.Errorf("%q, %w", text, err)
			}
		}
		return job.Output(ctx, "secret")
	}, jobs.KindOptions[mail]{})
	o := jobs.Insert{Unique: &jobs.Unique{OnConflict: jobs.Replace}, Headers: tenant("acme")}
	id := f.enqueue(mail{To: "secret"}, o).ID
	o.Headers = nil // a Replace also replaces the headers, and with them the tenant
	equal(t, "unique by what is inside", f.enqueue(mail{To: "secret"}, o), workqueue.Enqueued{ID: id, Duplicate: true,
		Replaced: true})
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@yearly", Args: mail{To: "secret"}, Headers: tenant("acme")})
	f.inTx(func(tx workqueue.Tx) error { _, err := s.Trigger(f.Context(), tx, "digest"); return err })
	f.work(jobs.WorkerOptions{})

	info := f.await(id, workqueue.Done)
	equal(t, "args", receive(t, got), "secret")
	equal(t, "args of the schedule's job", receive(t, got), "secret")
	var output string
	f.ok(f.client.DecodeOutput(t.Context(), info, &output))
	equal(t, "output", output, "secret")
	var all []jobs.Info
	f.inTx(func(tx workqueue.Tx) (err error) {
		all, err = f.client.List(t.Context(), tx, jobs.Filter{})
		return err
	})
	for _, i := range all {
		var args mail
		f.ok(f.client.DecodeArgs(t.Context(), i, &args))
		equal(t, "args as they are read", args.To, "secret")
	}
	equal(t, "in the clear",
		ask[int](f,
			fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s AS t WHERE position('secret' IN encode(t.args, 'escape') || coalesce(encode(t.output, 'escape'), '')) > 0)
		+ (SELECT count(*) FROM %[1]s_step AS s WHERE position('secret' IN encode(s.result, 'escape')) > 0)
		+ (SELECT count(*) FROM %[1]s_schedule AS s WHERE position('secret' IN encode(s.template, 'escape')) > 0)`, f.table)), 0)
}

// silent discards the log.
var silent = workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}

// drain handles all due jobs as a process with this codec would, and returns the recipients of their mails.
func (f *fixture) drain(c codec.Codec) (got []string) {
	f.Helper()
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(_ context.Context, job *jobs.Job[mail]) error {
		got = append(got, job.Args.To)
		return nil
	}, jobs.KindOptions[mail]{})
	client := f.open(jobs.Options{Schema: f.Schema, Registry: kinds, Codec: c, Retry: atOnce, Telemetry: silent})
	w, err := jobs.NewWorker(f.Pool, client, jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	f.ok(err)
	d, err := w.Drain()
	f.ok(err)
	_, err = d.Process(f.Context())
	f.ok(err)
	return got
}

func TestCopiedArgsAreDeadLettersAndStay(t *testing.T) {
	t.Parallel()
	sealed := encrypted(t, "a")
	f := newJobs(t, anyKind, func(o *jobs.Options) { o.Codec = sealed })
	o := jobs.Insert{MaxAttempts: 2}
	ids := []uuid.UUID{f.enqueue(mail{To: "one"}, o).ID, f.enqueue(mail{To: "two"}, o).ID}
	own := f.get(ids[1]).Args
	f.exec("UPDATE "+f.table+" SET args = (SELECT args FROM "+f.table+" WHERE id = $1) WHERE id = $2", ids[0], ids[1])
	equal(t, "handled", strings.Join(f.drain(sealed), " "), "one")
	info := f.get(ids[1])
	if info.Status != workqueue.Failed || info.Attempts != 2 ||
		!strings.Contains(info.LastError, `args of kind "mail" do not decode: aesgcm`) {
		t.Errorf("job %+v", info)
	}
	f.exec("UPDATE "+f.table+" SET args = $2 WHERE id = $1", ids[1], own)
	f.redrive(ids[1])
	equal(t, "handled when the args were put back", strings.Join(f.drain(sealed), " "), "two")
}

func TestWhatAnotherKeySealedIsReadableWithIt(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind, func(o *jobs.Options) { o.Codec = encrypted(t, "a") })
	id := f.enqueue(mail{To: "one"}, jobs.Insert{MaxAttempts: 2}).ID
	equal(t, "handled without the key", len(f.drain(encrypted(t, "b"))), 0)
	if info := f.get(id); info.Status != workqueue.Failed ||
		!strings.Contains(info.LastError, `key "a" is not known here`) {
		t.Errorf("job %+v", info)
	}
	f.redrive(id)
	equal(t, "handled with it", strings.Join(f.drain(encrypted(t, "a")), " "), "one")
}

// The output of a task is bound to that task, including its tenant, and a dependent task can still read it.
func TestOutputsOfDependenciesAreOpened(t *testing.T) {
	t.Parallel()
	f := newJobs(t, func(o *jobs.Options) { o.Codec = encrypted(t, "a") })
	got := make(chan string, 1)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error { return job.Output(ctx, job.Args.To) },
		jobs.KindOptions[mail]{})
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[report]) error {
		text, err := jobs.OutputOf[string](ctx, job, "first")
		if err == nil {
			got <- text
		}
		return err
	}, jobs.KindOptions[report]{})
	w := &jobs.Workflow{Name: "w"}
	first := w.Task("first", jobs.Insert{Args: mail{To: "secret"}, Headers: tenant("acme")})
	w.Task("second", jobs.Insert{Args: report{}}, jobs.After(first))
	f.inTx(func(tx workqueue.Tx) error { _, err := f.client.StartWorkflow(f.Context(), tx, w); return err })
	f.work(jobs.WorkerOptions{})
	equal(t, "output", receive(t, got), "secret")
}

// The codec Raw cannot encode Args, which are a type of their own, so it only serves for outputs and steps.
func TestRawRefusesArgs(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind, func(o *jobs.Options) { o.Codec = codec.Raw{} })
	err := f.refuse(mail{}, jobs.Insert{})
	if !errors.Is(err, workqueue.ErrInvalid) ||
		!strings.Contains(err.Error(), "args of type jobs_test.mail cannot be encoded") {
		t.Errorf("error %v", err)
	}
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 0)
}

// pixels are args with a binary form, which are not stored as JSON.
type pixels struct{ data []byte }

func (*pixels) Kind() string                        { return "pixels" }
func (p *pixels) MarshalBinary() ([]byte, error)    { return p.data, nil }
func (p *pixels) UnmarshalBinary(data []byte) error { p.data = bytes.Clone(data); return nil }

func TestArgsMayBeBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]codec.Codec{"in the clear": nil, "encrypted": encrypted(t, "a")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, func(o *jobs.Options) { o.Codec = c })
			got := make(chan []byte, 1)
			jobs.Register(f.kinds, func(_ context.Context,
				job *jobs.Job[*pixels]) error {
				got <- job.Args.data
				return nil
			}, jobs.KindOptions[*pixels]{})
			f.work(jobs.WorkerOptions{})
			raw := []byte{0, 255, '"', 7}
			id := f.enqueue(&pixels{raw}).ID
			if data := receive(t, got); !bytes.Equal(data, raw) || bytes.Equal(f.get(id).Args, raw) != (c == nil) {
				t.Errorf("args %v, want %v", data, raw)
			}
		})
	}
}

// Middleware can decode args itself.
func TestMiddlewareDecodesArgs(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	got := make(chan string, 1)
	seen := codec.Handler(func(_ context.Context, _ *jobs.Delivery, m mail) error { got <- m.To; return nil })
	f.work(jobs.WorkerOptions{Middleware: []jobs.Middleware{func(jobs.Handler) jobs.Handler { return seen }}})
	f.enqueue(mail{To: "ada"})
	equal(t, "args", receive(t, got), "ada")
}

func TestDrainDoesTheJobsOfAllQueues(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	ran := make(chan string, 10)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[mail]) error { ran <- job.Queue; return nil },
		jobs.KindOptions[mail]{})
	w, err := jobs.NewWorker(f.Pool, f.client, jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Name: "a"},
		{Name: "b"}}})
	f.ok(err)
	for _, queue := range []string{"a", "b", "c"} {
		f.enqueue(mail{}, jobs.Insert{Queue: queue})
	}
	d, err := w.Drain()
	f.ok(err)
	equal(t, "namespace", d.Namespace(), f.table)
	n, err := d.Process(t.Context())
	f.ok(err)
	equal(t, "jobs", n, 2)
	equal(t, "first", receive(t, ran), "a")
	equal(t, "second", receive(t, ran), "b")
}

// Everything that a handler records is part of the test's transaction, and is rolled back with it.
func TestDrainInATransactionThatRollsBack(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		if err := job.SetProgress(ctx, 50, "half"); err != nil {
			return err
		}
		one, err := jobs.Step(ctx, job, "one", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return err
		}
		two, err := jobs.StepTx(ctx, job, "two", func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, "SELECT 1")
			return 2, err
		})
		if err != nil {
			return err
		}
		return job.Tx(ctx, func(pgx.Tx) error { return job.Output(ctx, one+two) })
	}, jobs.KindOptions[mail]{})
	before := f.enqueue(mail{}).ID // committed: its row is locked by the transaction while the handler runs
	f.limit(jobs.DefaultQueue, jobs.Limits{MaxRunning: 1})
	tx, err := f.Pool.Begin(t.Context())
	f.ok(err)
	defer tx.Rollback(t.Context())
	within, err := f.client.Enqueue(t.Context(), workqueue.Pgx(tx), jobs.Insert{Args: mail{}})
	f.ok(err)

	w, err := jobs.NewWorker(f.Pool, f.client, jobs.WorkerOptions{})
	f.ok(err)
	d, err := w.DrainIn(tx)
	f.ok(err)
	n, err := d.Process(t.Context())
	f.ok(err)
	equal(t, "jobs", n, 2)
	for _, id := range []uuid.UUID{before, within.ID} {
		info, err := f.client.Get(t.Context(), workqueue.Pgx(tx), id)
		f.ok(err)
		equal(t, "status", info.Status, workqueue.Done)
		equal(t, "output", string(info.Output), "3")
		equal(t, "progress", *info.Progress, 50)
	}
	f.ok(tx.Rollback(t.Context()))
	equal(t, "status afterwards", f.get(before).Status, workqueue.Ready)
	equal(t, "steps afterwards", ask[int](f, "SELECT count(*) FROM "+f.table+"_step"), 0)
	if _, err := w.DrainIn(nil); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("without a transaction: %v", err)
	}
}
