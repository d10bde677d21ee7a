package liveness

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// refusals has an SQLSTATE of every class that a statement can fail with.
var refusals = []string{
	"08006", "0A000", "21000", "22P02", "23514", "25006", "26000", "28000", "2D000", "34000", "39000", "3F000", "40001",
	"40P01", "42501",
	"42P01", "44000", "53100", "53200", "54000", "55000", "55P03", "57014", "57P01", "58030", "F0000", "P0001", "XX000",
}

// refused makes the server refuse each of a program's statements: either once, after which the program itself continues
// and does its work, or for as long as the program runs, while others do theirs.
func (w *world) refused(t *testing.T, op operation, statements []string, left map[string]own) {
	for i, sql := range statements {
		// Every statement fails with some class here, and every class is used; at full size each is used in both ways.
		once, ever := refusals[(2*i)%len(refusals)], refusals[(2*i+1)%len(refusals)]
		t.Run(fmt.Sprintf("%d %s", i+1, label([]string{sql})), func(t *testing.T) {
			if i%2 == 0 || *full {
				t.Run(once+" once", func(t *testing.T) {
					w.refusedOnce(t, op, fmt.Sprint(op.name, i, once), sql, once)
				})
			}
			if i%2 == 1 || *full {
				t.Run(ever+" for ever", func(t *testing.T) {
					w.refusedForEver(t, op, fmt.Sprint(op.name, i, ever), sql, ever, left)
				})
			}
		})
	}
}

// rivals are bystanders whose rows a program claims that then cannot settle them: the rows return when their leases
// expire, again and again, for as long as the program runs.
var rivals = map[string][]string{
	ofOutbox: {"messages", "ordered messages"}, ofTimers: {"timers", "alarms"}, ofInbox: {"inbox"},
	ofSchedules: {"schedules"},
}

// refusedOnce lets the same program try again. A worker retries by itself; other operations are called again.
func (w *world) refusedOnce(t *testing.T, op operation, name, sql, code string) {
	t.Helper()
	line := newWire()
	var first sync.Once
	line.refuse = func(statement string) (refusal string) {
		if statement == sql {
			first.Do(func() { refusal = code })
		}
		return refusal
	}
	own := op.prepare(w, name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool, leave := w.program(line, name)
	defer leave()
	var err error
	for ctx.Err() == nil {
		if err = op.run(ctx, w, pool, name, own); own.done(ctx, w) == nil {
			return
		}
	}
	t.Errorf("%s does not get over %s of %q: %v", op.name, code, sql, err)
}

// refusedForEver runs the bystanders beside a program that makes no progress, or not enough, and records the program's
// work.
func (w *world) refusedForEver(t *testing.T, op operation, name, sql, code string, left map[string]own) {
	t.Helper()
	line := newWire()
	refused := make(chan struct{})
	tell := sync.OnceFunc(func() { close(refused) })
	line.refuse = func(statement string) string {
		if statement != sql {
			return ""
		}
		tell()
		return code
	}
	own := op.prepare(w, name)
	ended, end := w.begin(op, line, name, own)
	select {
	case <-refused:
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("%s neither ends nor sends %s", op.name, label([]string{sql}))
	}
	if op.rival != "" {
		defer w.run(w.worker(op.rival))()
	}
	c := cells{holder: op.name + " is refused"}
	w.beginAll(&c, name, len(name), rivals[op.rival], nil)
	c.judge(t)
	end()
	left[name] = own
}
