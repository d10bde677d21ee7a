package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A producer that does not see what is scheduled cannot write behind it, neither one message nor several. Those without
// a key it writes.
func TestAProducerOfALogDoesNotSeeWhatIsScheduled(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.enqueue(outbox.Message{Topic: "t", Key: "k", ScheduledAt: time.Now().Add(time.Hour)})
	f.exec("ALTER TABLE " + f.table + "_later ENABLE ROW LEVEL SECURITY")
	asRole := f.role()
	write := func(msgs ...outbox.Message) error {
		return asRole(func(tx workqueue.Tx) error {
			_, err := f.box.EnqueueMany(t.Context(), tx, msgs...)
			return err
		})
	}
	if err := write(outbox.Message{Topic: "t"}, outbox.Message{Topic: "t"}); err != nil {
		t.Errorf("without a key: %v", err)
	}
	one := outbox.Message{Topic: "t", Key: "k"}
	for _, msgs := range [][]outbox.Message{{one}, {one, {Topic: "t", Key: "l"}}} {
		err := write(msgs...)
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%d messages behind one that is hidden: %v", len(msgs), err)
		}
	}
}

// Who does not see the subscriptions is not told that there are none.
func TestSubscriptionsThatAreHidden(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s", 1)
	asRole := f.role()
	list := func() error {
		return asRole(func(tx workqueue.Tx) error {
			all, err := f.box.Subscriptions(t.Context(), tx)
			if err == nil && len(all) != 1 {
				t.Errorf("%d subscriptions", len(all))
			}
			return err
		})
	}
	if err := list(); err != nil {
		t.Error(err)
	}
	f.exec("ALTER TABLE " + f.table + "_subscription ENABLE ROW LEVEL SECURITY")
	if err, pg := list(), new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "42501" {
		t.Errorf("where they are hidden: %v", err)
	}
}

// role makes a role with all rights that needs no ownership, and returns what runs as it.
func (f *fixture) role() func(func(workqueue.Tx) error) error {
	f.Helper()
	role, schema := "r_"+f.DB.Schema, f.DB.Schema
	f.exec("CREATE ROLE " + role + "; GRANT USAGE ON SCHEMA " + schema + " TO " + role +
		"; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + role +
		"; GRANT ALL ON ALL SEQUENCES IN SCHEMA " + schema + " TO " + role +
		"; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA " + schema + " TO " + role)
	f.Cleanup(func() { f.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	pool := pgtest.NewPool(f.T, f.DB)
	return func(do func(workqueue.Tx) error) error {
		return pgx.BeginFunc(f.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(f.Context(), "SET LOCAL ROLE "+role); err != nil {
				return err
			}
			return do(workqueue.Pgx(tx))
		})
	}
}
