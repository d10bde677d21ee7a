//go:build unix

package workqueue_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// thaw is far more than the 30 s within which another process sweeps in the place of one that is frozen.
const thaw = 5 * time.Minute

// The process that sweeps is frozen while it holds a row. The server ends its session, another process sweeps, and
// every row is done. When the frozen process goes on, it no longer leads, but may lead again.
func TestAnotherProcessSweepsWhenTheLeaderIsFrozen(t *testing.T) {
	t.Parallel()
	r := sweptRig(t)
	if ask[int](r, "SELECT current_setting('server_version_num')::int") < 140000 {
		t.Skip("the server has no idle_session_timeout, which ends the session of a frozen process")
	}
	held := r.insert("held")
	child := r.startChild(childNameEnv + "=frozen")
	r.eventually("it to lead", func() bool { return r.leader() == "frozen" })
	r.eventually("it to sweep", func() bool { return r.sweptBy(time.Time{}) == "frozen" })
	second := r.processOf("second", workqueue.WorkerOptions{})

	signal := func(s os.Signal) {
		if err := child.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	frozen, begun := r.now(), time.Now()
	meanwhile := r.insertMany("meanwhile", 100)
	r.eventuallyWithin(thaw, "another to lead", func() bool { return r.leader() == "second" })
	t.Logf("another led %v after the freeze", time.Since(begun).Round(time.Millisecond))
	r.eventuallyWithin(thaw, "it to sweep", func() bool { return strings.Contains(r.sweptBy(frozen), "second") })
	r.eventuallyWithin(thaw, "every row to be done", func() bool {
		if _, err := r.Queue.ReapExpired(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		return r.count("id = ANY($1) AND status = 2", append(meanwhile, held...)) == 101
	})
	if row := r.row(held[0]); row.Attempts != 2 {
		t.Errorf("the row of the frozen process had %d attempts, want 2", row.Attempts)
	}

	signal(syscall.SIGCONT)
	if leader := r.leader(); leader != "second" {
		t.Errorf("%q leads when the frozen process goes on, want the second", leader)
	}
	if err := second.stop(t); err != nil {
		t.Error(err)
	}
	r.eventuallyWithin(thaw, "the first to lead again", func() bool { return r.leader() == "frozen" })
}
