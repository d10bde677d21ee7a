package workqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// Sessions whose encoding has changed while a worker runs are refused, and the log says so: the database answers.
func TestAWorkerWhoseSessionsCameToSpeakAnotherEncoding(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	role := r.weakRole()
	pool := r.openPool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
	runtime, err := workqueue.NewRuntime(pool, workqueue.RuntimeOptions{Connections: 2})
	if err != nil {
		t.Fatal(err)
	}
	w := r.startOn(pool, r.Domain,
		workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond, Runtime: runtime}, ackAll)
	r.awaitStatus(workqueue.Done, r.insert("before")...)
	r.exec(fmt.Sprintf("ALTER ROLE %q SET client_encoding = 'LATIN1'", role))
	r.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", role)
	r.eventually("it says why", func() bool {
		err := w.Ready()
		return strings.Contains(r.Logs.String(), "client_encoding is LATIN1") && err != nil &&
			strings.Contains(err.Error(), "sessions do not fit")
	})
	r.exec(fmt.Sprintf("ALTER ROLE %q RESET client_encoding", role)) // sessions that do not fit are still there
	r.awaitStatus(workqueue.Done, r.insert("after")...)
	r.eventually("it says that they fit", func() bool { return w.Ready() == nil })
	for line := range strings.Lines(r.Logs.String()) {
		if strings.Contains(line, "client_encoding") && !strings.Contains(line, "sessions of the database do not fit") {
			t.Error(line)
		}
	}
}
