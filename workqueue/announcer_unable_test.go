package workqueue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// weakRole creates a role that may do everything with the table, until the test takes a right from it.
func (r *rig) weakRole() (role string) {
	r.Helper()
	role = r.Schema + "_weak"
	r.exec(fmt.Sprintf(`CREATE ROLE %[1]q LOGIN; GRANT USAGE ON SCHEMA %[2]q TO %[1]q;
		GRANT ALL ON ALL TABLES IN SCHEMA %[2]q TO %[1]q`, role, r.Schema))
	r.Cleanup(func() { r.Eyes.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %[1]q; DROP ROLE %[1]q", role)) })
	return role
}

// processAs is processOf with a role.
func (r *rig) processAs(role, name string, o workqueue.WorkerOptions) *running {
	r.Helper()
	pool := r.openPool(func(c *pgxpool.Config) {
		c.ConnConfig.User = role
		c.ConnConfig.RuntimeParams["application_name"] = name
	})
	w := r.startOn(pool, r.Domain, o, ackAll)
	r.eventually(name+" to be ready", func() bool { return w.Ready() == nil })
	return w
}

// announcing returns which process announces; empty: none.
func (r *rig) announcing() string {
	r.Helper()
	return ask[string](r, "SELECT coalesce(max(application_name), '') FROM pg_stat_activity WHERE pid = $1",
		r.announcer())
}

const stoodAside = "announcer stands aside"

// An announcer that may no longer read the table gives up the lock, announces what was silent because of it, and says
// why. Another process announces then. If its session ends before it has announced, it does so with its next session,
// which cannot look from the start.
func TestAnAnnouncerThatCannotLookStandsAside(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"in its session": false, "after its session": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, log := newAnnouncerRig(t, rigOptions{})
			role := r.weakRole()
			r.processAs(role, "weak", workqueue.WorkerOptions{PollInterval: time.Hour})
			late, _ := r.leaveSilent()
			var due int64
			err := late.QueryRow(t.Context(), "SELECT (extract(epoch FROM now()) * 1000000)::bigint").Scan(&due)
			if err != nil {
				t.Fatal(err)
			}
			r.exec(fmt.Sprintf("REVOKE SELECT ON notes FROM %q", role))
			r.eventually("it says why", func() bool { return strings.Contains(log.String(), stoodAside) })
			r.eventually("the lock is released", func() bool { return r.announcer() == 0 })
			if ended {
				r.eventually("its session and the next one have ended, and it says so", func() bool {
					r.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
						WHERE application_name = 'weak' AND query LIKE '%pg_locks%'`)
					return strings.Count(log.String(), "announcer failed") >= 2
				})
			}
			heard := r.listener()
			if err := late.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			heard.awaitDue(t, due)
			// On a busy machine the server may have ended its session, which was idle for a second, after it announced:
			// it then announces once more.
			r.eventually("it announces nothing any more", func() bool {
				heard := r.listener()
				pgtest.Pass(2 * time.Second)
				r.exec("SELECT pg_notify($1, 'after it')", r.Table.Name())
				return heard.await(t, "what is sent while nothing happens") == "after it"
			})
			r.processOf("able", workqueue.WorkerOptions{PollInterval: time.Hour})
			r.eventually("another announcer", func() bool { r.load(60, nil); return r.announcing() == "able" })
			r.awaitStatus(workqueue.Done, r.load(100, nil)...)
			if n := strings.Count(log.String(), stoodAside); n != 1 {
				t.Errorf("it has stood aside %d times, want once", n)
			}
		})
	}
}

// A process that could not look does not take the lock at all. When it can, it announces.
func TestAnAnnouncerThatCannotLookDoesNotTakeTheLock(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{})
	role := r.weakRole()
	r.exec(fmt.Sprintf("REVOKE SELECT ON notes FROM %q", role))
	r.processAs(role, "weak", workqueue.WorkerOptions{PollInterval: time.Hour, Lease: workqueue.MinLease})
	r.eventually("it says why", func() bool { r.load(60, nil); return strings.Contains(log.String(), stoodAside) })
	if text := log.String(); strings.Contains(text, "announcer awake") || !strings.Contains(text, "permission denied") {
		t.Errorf("an announcer that cannot look:\n%s", text)
	}
}
