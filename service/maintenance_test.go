package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// purged waits until rows that ended long ago are deleted.
func (w *world) purged(tables ...string) {
	w.Helper()
	for _, table := range tables {
		w.eventually("finished rows of "+table, func() bool {
			return w.ask("SELECT EXISTS (SELECT FROM " + table + " WHERE status = 2)")
		})
		_, err := w.db.Pool.Exec(w.Context(), "UPDATE "+table+" SET completed_at = now() - interval '90 days'")
		w.ok(err)
	}
	for _, table := range tables {
		w.eventually("the end of old rows of "+table, func() bool {
			return !w.ask("SELECT EXISTS (SELECT FROM " + table + ")")
		})
	}
}

// Two services in one schema have different parts and one table in common. Together they maintain all their tables, and
// each goes on when the other stops.
func TestServicesWithDifferentParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orders, err := service.New(w.db.Pool, w.options(), w.relay, w.consumer)
	w.ok(err)
	shipping, err := service.New(w.db.Pool, w.options(), w.worker, w.newConsumer("shipping"))
	w.ok(err)
	stop := w.start(orders)
	w.eventually("the first service to lead", func() bool {
		return w.ask("SELECT count(*) = 2 FROM leader WHERE expires_at > now()")
	})
	w.start(shipping)
	w.eventually("a leader of every table", func() bool {
		return w.ask("SELECT count(*) = 4 AND count(DISTINCT holder) = 2 FROM leader WHERE expires_at > now()")
	})
	if w.ask("SELECT EXISTS (SELECT FROM leader WHERE term > 1)") {
		t.Error("a table that was maintained has changed hands")
	}
	w.work()
	w.purged("outbox", "inbox", "jobs")
	w.ok(stop())
	w.eventually("the second service to lead the table that both have", func() bool {
		return w.ask("SELECT EXISTS (SELECT FROM leader WHERE name LIKE '%.inbox' AND term = 2 AND expires_at > now())")
	})
	for line := range strings.Lines(w.logs.String()) {
		_, unserved, _ := strings.Cut(line, "unserved=") // the tables of timers really are unserved
		for _, served := range []string{".outbox", ".inbox", ".jobs"} {
			if strings.Contains(unserved, served) {
				t.Errorf("a service warned of a table that the other serves: %s", line)
			}
		}
	}
}

// An inbox that is used without a worker is not a part, so its table has to be named in the options.
func TestTablesThatNoPartServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.in.Process(t.Context(), w.db.Pool, inbox.Key{Consumer: "billing", Source: "shop", MessageID: "1"},
		func(context.Context, pgx.Tx) error { return nil })
	w.ok(err)
	o := w.options()
	o.Tables = w.in.Tables()
	s, err := service.New(w.db.Pool, o) // and without any part
	w.ok(err)
	stop := w.start(s)
	w.eventually("readiness", func() bool { return s.Ready() == nil })
	w.purged("inbox")
	w.ok(stop())

	o.Tables = []*workqueue.Table{nil}
	if _, err := service.New(w.db.Pool, o, w.relay); err == nil || !strings.Contains(err.Error(), "tables") {
		t.Errorf("a nil table: %v", err)
	}
}
