package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

const (
	// defaultExecConcurrency is modest because every message is a process.
	defaultExecConcurrency = 8

	// stdoutShutdown is short because a write that is blocked cannot be interrupted, and any other write takes less
	// time.
	stdoutShutdown = 3 * time.Second

	// foreignDelay is how long a message of an unselected topic is postponed, so that another relay can claim it.
	foreignDelay = 5 * time.Second
)

// relayOptions are the flags of relay.
type relayOptions struct {
	stdout      bool
	exec        string
	topics      []string
	of          string // a subscription of a log; empty: messages are rows
	untilEmpty  bool
	concurrency int
	lease       time.Duration
	timeout     time.Duration
	runsWithin  time.Duration
	noReaper    bool
	json        bool
}

func newRelayCommand(a *app) *cobra.Command {
	var o relayOptions
	cmd := &cobra.Command{
		Use:   "relay (--stdout | --exec COMMAND)",
		Short: "Deliver messages to standard output or to a command",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.relays, a.answers = true, a.stderr // standard output may be used for messages
			if err := o.validate(cmd.Flags().Changed("timeout")); err != nil {
				return err
			}
			settled := newSettledCounter()
			options := outbox.Options{Telemetry: workqueue.Telemetry{MeterProvider: settled.meters()}}
			if o.of != "" {
				options.Storage = outbox.Log
			}
			const ofLog = "name one of its subscriptions with --subscription"
			return a.withOutbox(cmd.Context(), options, ofLog, func(d *database, box *outbox.Outbox) error {
				r := &relay{relayOptions: o, app: a, db: d, outbox: box, settled: settled}
				return r.run(cmd.Context())
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.stdout, "stdout", false, "write payloads to standard output, a line each")
	flags.StringVar(&o.exec, "exec", "", "run this `command` for each message")
	flags.StringVar(&o.of, "subscription", "", "deliver the messages of this subscription of an outbox that is a log")
	flags.StringArrayVar(&o.topics, "topic", nil, "deliver this topic only; repeat for more")
	flags.BoolVar(&o.untilEmpty, "until-empty", false,
		"end when no message is ready or in progress; those scheduled for later, also after a failed attempt, stay, "+
			"and so do those that wait behind a failed one or whose topic is paused")
	flags.IntVar(&o.concurrency, "concurrency", 0,
		"messages at once (default: 1 with --stdout, which keeps them in order of claiming, "+
			fmt.Sprint(defaultExecConcurrency)+" with --exec)")
	flags.DurationVar(&o.lease, "lease", workqueue.DefaultLease,
		"lease of a message; after a crash, its messages are redelivered when it has expired")
	flags.DurationVar(&o.timeout, "timeout", workerfile.DefaultTimeout,
		"end a command that takes longer; the attempt has then failed; 0: no timeout")
	flags.DurationVar(&o.runsWithin, "runs-within", 0,
		"how long a message may be delivered before it is reported as one that does not return (default 1h, or twice "+
			"a --timeout of more than half an hour)")
	flags.BoolVar(&o.noReaper, "no-reaper", false, "leave expired leases to a reaper elsewhere")
	jsonVar(flags, &o.json, "say at the end what was done as one JSON object, on the last line of standard error",
		relayed{})
	return cmd
}

func (o *relayOptions) validate(timeoutGiven bool) error {
	if o.stdout == (o.exec != "") {
		return usagef("say where the messages go: either --stdout or --exec COMMAND")
	}
	if o.lease < workqueue.MinLease || o.lease > workqueue.MaxLease {
		return usagef("--lease is %v, it must be between %v and %v", o.lease, workqueue.MinLease, workqueue.MaxLease)
	}
	if o.timeout < 0 || timeoutGiven && o.stdout {
		return usagef("--timeout is for --exec and cannot be negative")
	}
	if o.stdout {
		o.timeout = 0
	}
	if o.runsWithin < 0 {
		return usagef("--runs-within is %v, it cannot be negative", o.runsWithin)
	}
	if o.concurrency < 0 {
		return usagef("--concurrency is %d, it must be at least 1", o.concurrency)
	}
	if o.of != "" && len(o.topics) > 0 {
		return usagef("--topic is not possible with --subscription, which has topics of its own")
	}
	for _, topic := range o.topics {
		if topic == "" || len(topic) > outbox.MaxTopic {
			return usagef("--topic has %d bytes, it must have 1 to %d", len(topic), outbox.MaxTopic)
		}
	}
	return nil
}

// A relay is one run of the command.
type relay struct {
	relayOptions
	app     *app
	db      *database
	outbox  *outbox.Outbox
	settled settledCounter
	told    toldCounter // of a subscription
}

// count returns what has become of messages so far.
func (r *relay) count() settled {
	n := r.settled.count()
	if r.of != "" {
		n.done, n.retried = r.told.done.Load(), r.told.retried.Load()
	}
	return n
}

// errEmpty is why a relay stops that was told to stop once the outbox is empty.
var errEmpty = errors.New("the outbox is empty")

// run delivers until it is interrupted, nothing is left, or the output is broken.
func (r *relay) run(ctx context.Context) error {
	if err := r.db.mayClaim(ctx, r.outbox.Table()); err != nil {
		return err
	}
	if r.of != "" {
		if has, err := r.db.hasSubscription(ctx, r.of); !has {
			return cmp.Or(err, noSubscription(r.of))
		}
	}
	stopped, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	worker, err := outbox.NewRelay(r.db.Pool, r.outbox, outbox.RelayOptions{Subscription: r.of,
		WorkerOptions: r.workerOptions()})
	if err != nil {
		return err
	}
	handle := r.selected(r.handler(stop))
	if r.of != "" {
		handle = r.told.counted(handle)
	}
	worker.HandleAll(handle)

	s, err := r.db.service(r.parts(worker, stop)...)
	if err != nil {
		return err
	}
	err = s.Run(stopped)
	return r.conclude(ctx, err, context.Cause(stopped))
}

// parts returns the worker and what runs beside it.
func (r *relay) parts(worker *outbox.Relay, stop context.CancelCauseFunc) []service.Part {
	parts := []service.Part{worker}
	if !r.noReaper {
		parts = append(parts, r.db.takeOver(r.outbox.Table()))
	}
	if r.untilEmpty {
		parts = append(parts, beside(func(ctx context.Context) error { r.awaitEmpty(ctx, stop); return nil }))
	}
	return parts
}

func (r *relay) workerOptions() workqueue.WorkerOptions {
	o := workqueue.WorkerOptions{Concurrency: r.concurrency, Lease: r.lease, HandlerTimeout: r.timeout,
		RunsWithin: cmp.Or(r.runsWithin, max(workqueue.DefaultRunsWithin, workqueue.RunsWithin(r.timeout)))}
	if r.stdout {
		o.ShutdownTimeout = stdoutShutdown
	}
	switch {
	case o.Concurrency > 0:
	case r.stdout:
		o.Concurrency = 1
	default:
		o.Concurrency = defaultExecConcurrency
	}
	return o
}

func (r *relay) handler(stop context.CancelCauseFunc) outbox.Handler {
	if r.stdout {
		w := newLineWriter(r.app.stdout, stop)
		if r.of != "" { // what was not written stays in hand, and is given back
			w.putBack = workqueue.Unavailable(errBroken)
		}
		return w.handle
	}
	stderr := shared(r.app.stderr)
	c := &commander{
		Exec: workerfile.Exec{Argv: workerfile.Shell(r.exec), KillAfter: killDelay,
			ExitCodes: workerfile.DefaultExitCodes()},
		children: &r.app.children, environ: inherited(os.Environ(), nil, r.db.Pool.Config().ConnConfig),
		stdout: shared(r.app.stdout), said: passLines(stderr), logger: r.app.logger(),
	}
	return func(ctx context.Context, m *outbox.Delivery) error { return c.handle(ctx, messageTask(m)) }
}

// selected returns messages of other topics to the queue for other relays. They have not failed, so they keep their
// attempts.
func (r *relay) selected(next outbox.Handler) outbox.Handler {
	if len(r.topics) == 0 {
		return next
	}
	return func(ctx context.Context, m *outbox.Delivery) error {
		if !slices.Contains(r.topics, m.Topic) {
			return workqueue.Snooze(foreignDelay)
		}
		return next(ctx, m)
	}
}

// minEmptyCheck is the shortest pause between two checks for an empty outbox.
const minEmptyCheck = 100 * time.Millisecond

// awaitEmpty stops the relay once two checks in a row find no message that is ready or in progress in any process. One
// check is not enough, because a message that has just ended may have released another one. A check costs more the more
// messages there are, so the pauses grow with its duration.
func (r *relay) awaitEmpty(ctx context.Context, stop context.CancelCauseFunc) {
	bar := &progress{}
	if _, messages := terminalOf(r.app.stdout); !r.stdout || !messages {
		bar = r.app.newTally("delivered", "messages", -1)
	}
	defer bar.end()
	empty := 0
	for ctx.Err() == nil {
		start := time.Now()
		folded, err := r.outbox.Table().On(r.db.Pool).Fold(ctx)
		if postgres.IsForbidden(err) { // it is left to others, which the worker has said
			err = nil
		}
		var depth workqueue.Stats
		if err == nil {
			depth, err = r.depth(ctx)
		}
		empty++
		aside := false
		if err == nil {
			aside, err = r.aside(ctx)
		}
		if err != nil || folded > 0 || aside || depth.Ready > 0 || depth.InProgress > 0 {
			empty = 0
		}
		if err == nil {
			n := r.count()
			ended := n.done + n.failed
			bar.of(ended, ended+depth.Ready+depth.InProgress)
		}
		if errors.Is(err, errNoSubscription) { // it was removed, and the relay would wait for it
			stop(err)
			return
		}
		if empty == 2 {
			stop(errEmpty)
			return
		}
		sleep(ctx, max(minEmptyCheck, 4*time.Since(start))) // the worker sees the same error, and reports it
	}
}

// aside reports whether messages are set aside for which the relay has no place at the moment. Those of a topic that is
// paused, or rests because its destination is unavailable, are not waited for.
func (r *relay) aside(ctx context.Context) (found bool, err error) {
	if r.of != "" { // parked messages have no topics
		return false, nil
	}
	err = r.db.readTx(ctx, func(tx workqueue.Tx, _ time.Time) error {
		list, err := r.outbox.Topics(ctx, tx)
		found = slices.ContainsFunc(list, func(i topics.Info) bool {
			return !i.Paused && i.UnavailableSince.IsZero() && i.Aside > 0 &&
				(len(r.topics) == 0 || slices.Contains(r.topics, i.Topic))
		})
		return err
	})
	return found, err
}

// depth counts the messages of the topics that this relay delivers.
func (r *relay) depth(ctx context.Context) (workqueue.Stats, error) {
	if r.of != "" {
		return r.db.subscriptionStats(ctx, r.of)
	}
	if len(r.topics) == 0 {
		return r.outbox.Table().On(r.db.Pool).Stats(ctx)
	}
	return r.db.topicStats(ctx, r.topics)
}

// relayed is what a relay has done, and what it left where it was to end with an empty outbox.
type relayed struct {
	Delivered int64      `json:"delivered"`           // messages
	Retried   int64      `json:"retried"`             // attempts that will be retried
	Failed    int64      `json:"failed"`              // messages that became dead letters
	Remaining *remaining `json:"remaining,omitempty"` // messages that --until-empty does not wait for
	Error     string     `json:"error,omitempty"`     // why it ended early
}

// remaining are the messages that --until-empty does not wait for.
type remaining struct {
	Scheduled int64 `json:"scheduled"` // due later, also after a failed attempt
	Failed    int64 `json:"failed"`    // dead letters
	Waiting   int64 `json:"waiting"`   // messages that are held back
}

// conclude reports what was done, and why the relay ended.
func (r *relay) conclude(ctx context.Context, err, cause error) error {
	n := r.count()
	done := relayed{Delivered: n.done, Retried: n.retried, Failed: n.failed}
	if err == nil && errors.Is(cause, errEmpty) {
		var rest workqueue.Stats
		if rest, err = r.depth(ctx); err == nil {
			done.Remaining = &remaining{rest.Scheduled, rest.Failed, rest.Waiting}
		}
	}
	// A signal is the normal way to end a relay that does not end by itself.
	if err == nil && !errors.Is(cause, errEmpty) && (r.untilEmpty || cause != context.Cause(ctx)) {
		err = cause
	}
	if err != nil {
		done.Error = told(ctx, err)
	}
	if err != nil && r.json {
		r.app.failed = done
		return err
	}
	if printErr := r.report(done); err == nil {
		err = printErr
	}
	return err
}

func (r *relay) report(done relayed) error {
	if r.json {
		return r.app.printJSON(done)
	}
	fmt.Fprintf(r.app.stderr, "txwork: delivered %s", plural(int(done.Delivered), "message"))
	if r.exec != "" {
		fmt.Fprintf(r.app.stderr, "; attempts to be repeated: %d, failed for good: %d", done.Retried, done.Failed)
	}
	fmt.Fprintln(r.app.stderr)
	if rest := done.Remaining; rest != nil && *rest != (remaining{}) {
		fmt.Fprintf(r.app.stderr, "txwork: remaining: %d scheduled for later, %d failed (%s), %d waiting for others\n",
			rest.Scheduled, rest.Failed, r.app.command(r.lists()...), rest.Waiting)
	}
	return nil
}

// lists are the arguments that list dead letters.
func (r *relay) lists() []string {
	args := []string{"list", r.outbox.Table().Spec().Table, "--status", "failed"}
	if r.of != "" {
		args = append(args, "--subscription", r.of)
	}
	return args
}

// A lineWriter writes messages to standard output, one line for each.
type lineWriter struct {
	w    io.Writer
	stop context.CancelCauseFunc
	turn chan struct{} // held by the goroutine that writes
	buf  []byte
	err  error

	putBack error // what becomes of a message that was not written
}

var errBroken = errors.New("standard output is broken")

func newLineWriter(w io.Writer, stop context.CancelCauseFunc) *lineWriter {
	return &lineWriter{w: w, stop: stop, turn: make(chan struct{}, 1), putBack: workqueue.Snooze(0)}
}

// handle writes one whole message. If the output is broken, the message returns to the queue unchanged, because it is
// not at fault.
func (l *lineWriter) handle(ctx context.Context, m *outbox.Delivery) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.err != nil {
		return l.putBack
	}
	l.buf = append(append(l.buf[:0], m.Payload...), '\n')
	if _, l.err = l.w.Write(l.buf); l.err != nil {
		l.stop(fmt.Errorf("writing to standard output: %w: the messages that were not written stay in the outbox",
			l.err))
		return l.putBack
	}
	return nil
}
