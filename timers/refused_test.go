package timers_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// refused are invalid timers, with what the error must contain.
var refused = map[string]struct {
	timer timers.Timer
	want  string
}{
	"no key": {timers.Timer{Topic: "t"}, "key has 0 bytes, it must have 1 to 255 bytes"},
	"long key": {timers.Timer{Key: strings.Repeat("ö", 128), Topic: "t"},
		"key has 256 bytes, it must have 1 to 255 bytes"},
	"NUL in key":       {timers.Timer{Key: "a\x00", Topic: "t"}, "key has a NUL byte at offset 1"},
	"key not UTF-8":    {timers.Timer{Key: "\xff", Topic: "t"}, "key is not valid UTF-8"},
	"reserved key":     {timers.Timer{Key: "schedule/x", Topic: "t"}, `begins with "schedule/"`},
	"no topic":         {timers.Timer{Key: "k"}, "topic has 0 bytes, it must have 1 to 255 bytes"},
	"long topic":       {timers.Timer{Key: "k", Topic: strings.Repeat("t", 256)}, "topic has 256 bytes"},
	"NUL in topic":     {timers.Timer{Key: "k", Topic: "\x00"}, "topic has a NUL byte"},
	"negative delay":   {timers.Timer{Key: "k", Topic: "t", Delay: -1}, "delay is -1ns, it cannot be negative"},
	"enormous delay":   {timers.Timer{Key: "k", Topic: "t", Delay: 1 << 62}, "at most 87600h0m0s is allowed"},
	"both":             {timers.Timer{Key: "k", Topic: "t", Delay: 1, ScheduledAt: tomorrow}, "and so is ScheduledAt"},
	"time before 1970": {timers.Timer{Key: "k", Topic: "t", ScheduledAt: time.Unix(-1, 0)}, "due time is"},
	"time after 9999": {timers.Timer{Key: "k", Topic: "t", ScheduledAt: time.Unix(1_700_000_000_000, 0)},
		"it must be between 1970-01-01 and 9999-12-31"},
	"large payload": {timers.Timer{Key: "k", Topic: "t", Payload: make([]byte, 1025)},
		"payload has 1025 bytes, it must have at most 1024 bytes"},
	"large headers": {timers.Timer{Key: "k", Topic: "t", Headers: map[string]string{"h": strings.Repeat("v",
		64<<10)}}, "headers has 65537 bytes"},
	"NUL in header": {timers.Timer{Key: "k", Topic: "t", Headers: map[string]string{"h": "\x00"}},
		"header h has a NUL byte"},
	"negative attempts": {timers.Timer{Key: "k", Topic: "t", MaxAttempts: -1}, "max attempts is -1"},
	"absurd attempts":   {timers.Timer{Key: "k", Topic: "t", MaxAttempts: 1 << 40}, "max attempts is 1099511627776"},
}

func TestBadTimersAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	f := newTimers(t, func(o *timers.Options) { o.MaxPayload = 1024 })
	tx, end := apptx.Pgx(f, f.DB)
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := f.timers.SetMany(t.Context(), tx, timers.Timer{Key: "good", Topic: "t"}, c.timer)
			var refusal *workqueue.ItemError
			if !errors.As(err, &refusal) || !errors.Is(err, workqueue.ErrInvalid) || refusal.Index != 1 ||
				refusal.Count != 2 {
				t.Fatalf("got %v, want an ItemError of the second", err)
			}
			if !strings.HasPrefix(err.Error(), "txwork: timer 2 of 2: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("says %q, want %q", err, c.want)
			}
		})
	}
	if _, err := f.timers.Set(t.Context(), tx, timers.Timer{Key: "good", Topic: "t",
		ScheduledAt: tomorrow}); err != nil {
		t.Errorf("the transaction is not as it was: %v", err)
	}
	end(true)
	if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 1 {
		t.Errorf("the table has %d timers, want the good one", n)
	}
}

func TestAMissingTransactionIsRefused(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	for name, tx := range map[string]workqueue.Tx{"nil": nil, "nil pgx.Tx": workqueue.Pgx(nil),
		"nil SQLTx": workqueue.SQL(nil)} {
		_, setErr := f.timers.Set(t.Context(), tx, timers.Timer{Key: "k", Topic: "t"})
		_, cancelErr := f.timers.Cancel(t.Context(), tx, "k")
		_, getErr := f.timers.Get(t.Context(), tx, "k")
		_, listErr := f.timers.List(t.Context(), tx, timers.Filter{})
		for _, err := range []error{setErr, cancelErr, getErr, listErr} {
			if !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
		}
	}
}

func TestOpenRefusesBadOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options timers.Options
		want    string
	}{
		"payload":   {timers.Options{MaxPayload: -1}, "max payload is -1 bytes"},
		"schema":    {timers.Options{Schema: "Robert'); --"}, "schema"},
		"attempts":  {timers.Options{MaxAttempts: -1}, "max attempts is -1"},
		"lead":      {timers.Options{Lead: -1}, "lead is -1ns"},
		"long lead": {timers.Options{Lead: 2 * time.Hour}, "between 0 and 1h0m0s"},
	} {
		if _, err := timers.Open(c.options); !errors.Is(err, workqueue.ErrInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
