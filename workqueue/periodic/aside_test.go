package periodic_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue/periodic"
)

// weak returns a pool of a role that may decide about schedules, and not write occurrences.
func (f *fixture) weak() *pgxpool.Pool {
	f.Helper()
	role := "weak_" + strings.ToLower(rand.Text()[:8])
	f.exec(strings.NewReplacer("{role}", role, "{schema}", f.Schema).Replace(`CREATE ROLE {role};
		GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
		REVOKE INSERT ON {schema}.runs FROM {role}`))
	f.Cleanup(func() { f.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	return pgtest.NewPool(f, f.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		}
	}))
}

// Schedulers that cannot write occurrences leave each schedule that they have tried to the one that can. Otherwise most
// attempts would be theirs, and the pauses between the attempts would grow.
func TestASchedulerThatCannotDecideLeavesSchedulesToOthers(t *testing.T) {
	t.Parallel()
	const schedules = 12
	f := newPlan(t)

	for i := range schedules {
		f.put(periodic.Schedule{Name: fmt.Sprint(i), Expr: "@every 1s",
			Rule: schedule.Rule{Misfire: schedule.MisfireOnce}})
	}
	weak := f.weak()
	for range 3 {
		f.schedulerOf(weak, openPlan(t, f.Schema))
	}
	f.until("schedules that fail", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE last_error LIKE '%permission denied%'") == schedules
	})
	pgtest.Pass(12 * time.Second)                                        // in which each would have tried several times
	if n := ask[int](f, "SELECT max(attempts) FROM "+f.table); n > 2*3 { // a slow machine may let each try twice
		t.Errorf("%d attempts of three schedulers, each of which should have left the schedule to the others", n)
	}
	f.scheduler()
	f.until("every schedule fires", func() bool {
		return ask[int](f, "SELECT count(DISTINCT schedule) FROM runs") == schedules
	})
}
