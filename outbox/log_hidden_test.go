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
	role := "r_" + f.DB.Schema
	f.exec("CREATE ROLE " + role + "; GRANT USAGE ON SCHEMA " + f.DB.Schema + " TO " + role +
		"; GRANT ALL ON ALL TABLES IN SCHEMA " + f.DB.Schema + " TO " + role +
		"; GRANT ALL ON ALL SEQUENCES IN SCHEMA " + f.DB.Schema + " TO " + role +
		"; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA " + f.DB.Schema + " TO " + role)
	t.Cleanup(func() {
		f.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
	})
	pool := pgtest.NewPool(t, f.DB)
	write := func(msgs ...outbox.Message) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+role); err != nil {
				return err
			}
			_, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...)
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
