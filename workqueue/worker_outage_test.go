package workqueue_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// An outage is logged with one line when it begins and one when it ends, however many statements fail in it.
func TestAnOutageIsLoggedTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	var down atomic.Bool
	pool := r.openPool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = r.Schema
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("no route to host")
			}
			return dial(ctx, network, addr)
		}
	})
	w := r.startOn(pool, r.Domain, workqueue.WorkerOptions{}, ackAll)
	r.awaitStatus(workqueue.Done, r.insert("before")...)
	for outage := 1; outage <= 2; outage++ {
		down.Store(true)
		failed := r.Events.count(func(e workqueue.Event) bool { return e.Err != nil })
		r.eventually("statements that fail", func() bool { // repeatedly, because a new session may be connecting
			r.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", r.Schema)
			return r.Events.count(func(e workqueue.Event) bool { return e.Err != nil }) >= failed+4
		})
		down.Store(false)
		r.awaitStatus(workqueue.Done, r.insert("after")...)
		r.eventually("the end to be told", func() bool {
			return strings.Count(r.Logs.String(), "database answers again") == outage
		})
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	logs := r.Logs.String()
	for text, want := range map[string]int{"database does not answer": 2, "database answers again": 2,
		"level=ERROR": 2} {
		if n := strings.Count(logs, text); n != want {
			t.Errorf("%q stands %d times in the logs, want %d:\n%s", text, n, want, logs)
		}
	}
}
