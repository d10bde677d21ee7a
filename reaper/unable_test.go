package reaper_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// role creates a role that may do everything with the tables that exist, and returns it with a pool of its sessions.
func (db *database) role() (role string, pool *pgxpool.Pool) {
	db.t.Helper()
	role = "unable_" + strings.ToLower(rand.Text()[:8])
	db.exec(strings.NewReplacer("{role}", role, "{schema}", db.Schema).Replace(`CREATE ROLE {role};
		GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}`))
	db.t.Cleanup(func() { db.exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	return role, pgtest.NewPool(db.t, db.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		}
	}))
}

// A leader that can no longer serve a table resigns from this one and says why. A reaper that stands by takes over, and
// the leader keeps the tables that it can serve.
func TestALeaderThatCannotServeATableResigns(t *testing.T) {
	t.Parallel()
	later := []string{"later"}
	for name, c := range map[string]struct {
		breaks string
		sweeps []string // of the leader's program
	}{
		"a right that it has lost":                    {"REVOKE UPDATE ON {work} FROM {role}", nil},
		"a function that it may not call":             {"REVOKE EXECUTE ON FUNCTION {work}_later FROM {role}", later},
		"a function that is missing since a rollback": {"DROP FUNCTION {work}_later", later},
		"a function that an upgrade has renamed":      {"ALTER FUNCTION {work}_later RENAME TO even_later", later},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			work, other := db.table(workqueue.Spec{Table: "work"}), db.table(workqueue.Spec{Table: "other"})
			db.exec("CREATE FUNCTION " + work.Name() + "_later(integer) RETURNS integer LANGUAGE sql AS 'SELECT 0'; " +
				"REVOKE ALL ON FUNCTION " + work.Name() + "_later FROM PUBLIC")
			role, weak := db.role()
			log := &logged{}
			o := db.options()
			o.Lease = 10 * time.Second // that nobody loses
			successor := o
			o.Logger = log.logger()
			db.run(weak, o, db.open(workqueue.Spec{Table: "work", Sweeps: c.sweeps}, nil), other)
			db.awaitTerm(work, 1)
			db.awaitTerm(other, 1)
			db.run(db.Pool, successor, work)
			db.exec(strings.NewReplacer("{work}", work.Name(), "{role}", role).Replace(c.breaks))
			db.rows(work, 3, expired)
			db.awaitTerm(work, 2)
			db.await("requeued rows", func() bool { return db.count(work, workqueue.InProgress) == 0 })
			if !strings.Contains(log.String(), "reaper resigns") || !strings.Contains(log.String(), work.Name()) {
				t.Errorf("the log does not say why:\n%s", log)
			}
			if l := db.leader(other); l.Term != 1 || l.ExpiresIn <= 0 {
				t.Errorf("leadership of the other table %+v, want that of the first leader", l)
			}
			db.await("the first leader standing again", func() bool {
				return strings.Contains(log.String(), "reaper stands by")
			})
			if l := db.leader(work); l.Term != 2 || l.ExpiresIn <= 0 || l.Problem != "" {
				t.Errorf("leadership %+v, want that of the successor", l)
			}
		})
	}
}

// If there is no other reaper, one that has resigned returns, and works as soon as it can.
func TestALeaderThatResignedReturns(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	work := db.table(workqueue.Spec{Table: "work"})
	role, weak := db.role()
	db.run(weak, db.options(), work)
	db.awaitTerm(work, 1)
	db.exec("REVOKE UPDATE ON " + work.Name() + " FROM " + role)
	db.rows(work, 3, expired)
	db.await("leader that has resigned", func() bool {
		l := db.leader(work)
		return l.ExpiresIn <= 0 && l.Problem != ""
	})
	db.exec("GRANT UPDATE ON " + work.Name() + " TO " + role)
	db.await("requeued rows", func() bool { return db.count(work, workqueue.InProgress) == 0 })
	db.await("a leader without a problem", func() bool {
		l := db.leader(work)
		return l.ExpiresIn > 0 && l.Problem == ""
	})
}

// A table that is locked, and rows that cannot be processed, are the same for every reaper: they are no reason to
// resign.
func TestALockedTableIsNoReasonToResign(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	work := db.table(workqueue.Spec{Table: "work"})
	log := &logged{}
	o := db.options()
	o.Logger = log.logger()
	db.run(db.Pool, o, work)
	db.awaitTerm(work, 1)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+work.Name()); err != nil {
		t.Fatal(err)
	}
	db.await("rounds that fail", func() bool { return strings.Count(log.String(), "reaper round failed") > 4 })
	if strings.Contains(log.String(), "reaper resigns") {
		t.Errorf("it has resigned:\n%s", log)
	}
}
