package jobs_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
)

// A deployment changes a schedule whose jobs were missed, and a process of the old release starts once more.
func TestAChangedScheduleEnqueuesWhatItOwes(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, jobs.KindOptions[mail]{})
	s := f.schedules()
	before := jobs.Schedule{Name: "digest", Expr: "@every 1h", Version: 2, Args: mail{To: "ann"},
		Rule: schedule.Rule{Misfire: schedule.MisfireAll}}
	f.put(s, before)
	f.exec("UPDATE " + f.table + "_schedule SET next_at = next_at - interval '3 hours 30 minutes', due_at = now()")
	next := ask[time.Time](f, "SELECT next_at FROM "+f.table+"_schedule")
	after := before
	after.Expr, after.Version, after.Args = "@every 2h", 3, mail{To: "bob"}
	f.put(s, after)
	f.put(s, before)
	info := func() jobs.ScheduleInfo {
		var i jobs.ScheduleInfo
		f.inTx(func(tx workqueue.Tx) (err error) {
			i, err = s.Get(t.Context(), tx, "digest")
			return err
		})
		return i
	}
	equal(t, "expression", info().Expr, "@every 2h")
	equal(t, "owed", info().Owed, 3)
	f.scheduler(s)
	f.until("nothing is owed", func() bool { return info().Owed == 0 })
	equal(t, "jobs", ask[int](f, "SELECT count(*) FROM "+f.table), 3)
	for i := range 3 {
		at := next.Add(time.Duration(i) * time.Hour)
		id := ask[uuid.UUID](f, "SELECT id FROM "+f.table+" WHERE headers ->> 'txwork-nominal' = $1",
			at.UTC().Format(time.RFC3339Nano))
		equal(t, "time of the id", int64(binary.BigEndian.Uint64(id[:8])>>16), at.UnixMilli())
	}
}
