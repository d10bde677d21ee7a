//go:build unix

package torture

import (
	"slices"
	"time"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Times of a run. They are as short as the library allows, so that many recoveries fit into a run.
const (
	lease     = 2 * time.Second
	reapEvery = 250 * time.Millisecond
	retryBase = 20 * time.Millisecond
	retryCap  = 500 * time.Millisecond
	attempts  = 50 // many, so that no row runs out of them by chance
	// shutdownLimit is how long a stopping worker waits for its handlers before it cancels them.
	shutdownLimit = 2 * lease
	dedupYears    = 365 * 24 * time.Hour
)

// patience is how long nothing may change while rows are left: three times a lease, a round of the reaper and a
// backoff, then the time after which a worker whose database was away tries again, and the poll interval.
func (o Options) patience() time.Duration {
	return 3*(lease+reapEvery+retryCap) + 10*time.Second + o.Poll - DefaultPoll
}

// domains are all four domains and the log, with the settings that producers, workers and reapers share.
type domains struct {
	outbox   *outbox.Outbox
	inbox    *inbox.Inbox
	timers   *timers.Timers
	jobs     *jobs.Client
	registry *jobs.Registry
	log      *outbox.Outbox
}

func openDomains(schema string, registry *jobs.Registry, t workqueue.Telemetry) (d *domains, err error) {
	retry := workqueue.Retry{Growth: workqueue.Exponential, Base: retryBase, Cap: retryCap, Jitter: 0.2}
	d = &domains{registry: registry}
	if d.outbox, err = outbox.Open(outbox.Options{
		Schema: schema, Ordering: outbox.PerKey, OnFailure: keyed.Skip, MaxAttempts: attempts, Retry: retry,
		Telemetry: t,
	}); err != nil {
		return nil, err
	}
	if d.log, err = openLog(schema, t); err != nil {
		return nil, err
	}
	if d.inbox, err = inbox.Open(inbox.Options{Schema: schema, DedupWindow: dedupYears, MaxAttempts: attempts,
		Retry: retry, Telemetry: t}); err != nil {
		return nil, err
	}
	if d.timers, err = timers.Open(timers.Options{Schema: schema, MaxAttempts: attempts, Retry: retry,
		Telemetry: t}); err != nil {
		return nil, err
	}
	d.jobs, err = jobs.Open(jobs.Options{Schema: schema, Registry: registry, MaxAttempts: attempts, Retry: retry,
		Telemetry: t})
	return d, err
}

// tables are the tables that the reaper maintains.
func (d *domains) tables() []*workqueue.Table {
	return slices.Concat(d.outbox.Tables(), d.inbox.Tables(), d.timers.Tables(), d.jobs.Tables(),
		d.log.Tables())
}

// Task is the payload of every row. It says how the handler has to behave.
type Task struct {
	Mode string `json:"mode"`
	Name string `json:"name"`
}

// Kind implements jobs.Args.
func (Task) Kind() string { return "torture" }

const (
	consumer = "torture"
	topic    = "torture"
)

// Modes of a handler.
const (
	modeTx         = "tx"        // writes in the transaction that settles
	modePlain      = "plain"     // returns nil
	modeFlaky      = "flaky"     // fails sometimes, otherwise like plain
	modeSnooze     = "snooze"    // snoozes sometimes
	modePermanent  = "permanent" // fails permanently
	modeSlow       = "slow"      // takes longer than its lease, which has to be renewed
	modePanic      = "panic"     // panics sometimes
	modeHang       = "hang"      // does not return while receivers hang
	modeExit       = "exit"      // ends the process
	modeChildPanic = "child"     // panics in a goroutine of its own, which ends the process
	modeAway       = "away"      // its destination is unavailable
	modeDeaf       = "deaf"      // takes longer than it may, and does not heed its context
)
