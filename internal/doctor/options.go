package doctor

import (
	"cmp"
	"slices"
	"time"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

const (
	// DefaultTimeout bounds a whole examination.
	DefaultTimeout = 10 * time.Second
	// DefaultStatementTimeout bounds each statement.
	DefaultStatementTimeout = 500 * time.Millisecond
)

// Options of an examination. The zero value is usable.
type Options struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Programs are the tables of each domain, as the programs of this version open them. A pending migration is a
	// warning if these work with the tables as they are. Default: they need every migration.
	Programs map[migrations.Domain][]workqueue.Spec

	// Ignore lists codes of findings that are not looked for.
	Ignore []string

	// Timeout bounds the whole examination: checks that have not begun by then are skipped. Default: [DefaultTimeout].
	Timeout time.Duration

	// StatementTimeout bounds each statement: one that takes longer is skipped. Default: [DefaultStatementTimeout].
	StatementTimeout time.Duration

	// Thresholds say when something becomes a finding. A field that is 0 has its default.
	Thresholds Thresholds

	// Now returns the time of this machine. Default: [time.Now].
	Now func() time.Time
}

// Thresholds say when something becomes a finding.
type Thresholds struct {
	Expired   time.Duration // an expired lease that has not been requeued
	Silent    time.Duration // a session of a worker that has been silent
	Reaper    time.Duration // a table without a leading reaper
	Running   time.Duration // a row in progress, if its worker did not say within which time it should end
	Backlog   time.Duration // a ready row that waits
	Unserved  time.Duration // a ready row that waits, in a lane without a worker
	Schedule  time.Duration // a schedule that has not fired
	Alarm     time.Duration // a repeating alarm that should have been delivered
	Fold      time.Duration // a note that has not been folded
	Join      time.Duration // a join that should have ended
	Poison    int           // dead letters of one kind with one error within an hour
	Horizon   time.Duration // a transaction that holds back vacuum
	SlotAge   int64         // number of transactions by which a replication slot holds back vacuum
	SlotBytes int64         // write-ahead log that an inactive replication slot keeps
	Dead      int64         // dead rows that autovacuum leaves in a table
	Announcer time.Duration // an announcer that has been silent
	Notify    float64       // the share of the notification queue that is in use
	LockWait  time.Duration // a session that waits for a lock of a queue
	Clock     time.Duration // the difference between the clocks of this machine and of the server
}

var defaultThresholds = Thresholds{
	Expired: time.Minute, Silent: 45 * time.Second, Reaper: 15 * time.Minute,
	Running: workqueue.DefaultRunsWithin,
	Backlog: 5 * time.Minute, Unserved: 2 * time.Minute, Schedule: 2 * time.Minute, Fold: time.Minute,
	Join: 10 * time.Minute, Alarm: 10 * time.Minute,
	Poison: 5, Horizon: 10 * time.Minute, SlotAge: 1_000_000, SlotBytes: 1 << 30, Dead: 100_000,
	Announcer: 10 * time.Second, Notify: 0.1, LockWait: 10 * time.Second, Clock: 5 * time.Second,
}

func (o Options) withDefaults() Options {
	o.Schema = cmp.Or(o.Schema, workqueue.DefaultSchema)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, DefaultStatementTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Thresholds = o.Thresholds.withDefaults()
	return o
}

func (t Thresholds) withDefaults() Thresholds {
	d := defaultThresholds
	set(&t.Expired, d.Expired)
	set(&t.Silent, d.Silent)
	set(&t.Reaper, d.Reaper)
	set(&t.Running, d.Running)
	set(&t.Backlog, d.Backlog)
	set(&t.Unserved, d.Unserved)
	set(&t.Schedule, d.Schedule)
	set(&t.Alarm, d.Alarm)
	set(&t.Fold, d.Fold)
	set(&t.Join, d.Join)
	set(&t.Poison, d.Poison)
	set(&t.Horizon, d.Horizon)
	set(&t.SlotAge, d.SlotAge)
	set(&t.SlotBytes, d.SlotBytes)
	set(&t.Dead, d.Dead)
	set(&t.Announcer, d.Announcer)
	set(&t.Notify, d.Notify)
	set(&t.LockWait, d.LockWait)
	set(&t.Clock, d.Clock)
	return t
}

func set[T comparable](value *T, byDefault T) {
	if *value == *new(T) {
		*value = byDefault
	}
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	if err := validate.Identifier("schema", o.withDefaults().Schema); err != nil {
		return err
	}
	if o.Timeout < 0 {
		return validate.Errorf("timeout", "is %v, it must not be negative", o.Timeout)
	}
	if o.StatementTimeout < 0 || o.StatementTimeout%time.Millisecond != 0 {
		return validate.Errorf("statement timeout", "is %v, it must be whole milliseconds", o.StatementTimeout)
	}
	for _, code := range o.Ignore {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.code == code }) {
			return validate.Errorf("ignore", "names %q, which is the code of no finding", code)
		}
	}
	return nil
}
