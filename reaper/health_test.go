package reaper_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

func (db *database) health(pool *pgxpool.Pool, tables ...*workqueue.Table) reaper.HealthReport {
	db.t.Helper()
	h, err := reaper.Health(db.t.Context(), pool, tables)
	if err != nil {
		db.t.Fatal(err)
	}
	return h
}

func TestHealthOfTables(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	busy := db.table(workqueue.Spec{Table: "busy"})
	empty := db.table(workqueue.Spec{Table: "empty"})
	healthy := db.table(workqueue.Spec{Table: "healthy"})
	db.rows(healthy, 3, running)
	db.rows(busy, 4, expired)
	db.rows(busy, 3, running)
	db.rows(busy, 2, ready)
	db.rows(busy, 5, failed("1 day"))
	db.rows(busy, 6, done("1 day"))

	h := db.health(db.Pool, busy, empty, healthy)

	got := h.Tables[0]
	if got.Table != busy.Name() || got.Ready != 2 || got.InProgress != 7 || got.Expired != 4 || got.Failed != 5 {
		t.Errorf("health %+v", got)
	}
	if got.OldestExpired < time.Minute || got.OldestExpired > 2*time.Minute || got.OldestReady < time.Hour {
		t.Errorf("oldest expired lease %v, oldest ready row %v; want a minute and an hour", got.OldestExpired,
			got.OldestReady)
	}
	if want := (reaper.TableHealth{Table: empty.Name()}); h.Tables[1] != want {
		t.Errorf("health of an empty table %+v", h.Tables[1])
	}
	if got := h.Tables[2]; got.InProgress != 3 || got.Expired != 0 || got.OldestExpired != 0 {
		t.Errorf("health of a table whose leases are good %+v", got)
	}
}

func TestHealthNamesTheTableThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	missing := db.open(workqueue.Spec{Table: "missing"}, nil)
	table := db.table(workqueue.Spec{Table: "work"})
	h, err := reaper.Health(t.Context(), db.Pool, []*workqueue.Table{missing, table})
	if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), missing.Name()) {
		t.Errorf("error %v, want ErrSchemaVersion of %s", err, missing.Name())
	}
	if len(h.Tables) != 1 || h.Tables[0].Table != table.Name() {
		t.Errorf("tables %+v, want the other", h.Tables)
	}
}

// hold opens a transaction with a snapshot, and then lets other transactions commit, so that it holds back vacuum.
func (db *database) hold(url string) *pgx.Conn {
	db.t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		db.t.Fatal(err)
	}
	db.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(context.Background(), "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		db.t.Fatal(err)
	}
	if _, err := conn.Exec(context.Background(), "SELECT count(*) FROM pg_class"); err != nil {
		db.t.Fatal(err)
	}
	for range 20 {
		db.exec("SELECT pg_current_xact_id()")
	}
	return conn
}

func find(holders []reaper.Holder, match func(reaper.Holder) bool) *reaper.Holder {
	if i := slices.IndexFunc(holders, match); i >= 0 {
		return &holders[i]
	}
	return nil
}

func TestHealthFindsAHeldSnapshot(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	conn := db.hold(db.URL + "&application_name=report")
	pid := conn.PgConn().PID()

	held := func() *reaper.Holder {
		return find(db.health(db.Pool, table).Holders, func(h reaper.Holder) bool { return h.PID == int32(pid) })
	}
	h := held()
	if h == nil {
		t.Fatalf("no holder with pid %d in %+v", pid, db.health(db.Pool, table).Holders)
	}
	if h.Kind != reaper.Transaction || h.State != "idle in transaction" || h.Application != "report" ||
		h.Role == "" || h.Database == "" || h.XminAge < 20 || h.Age <= 0 || h.CatalogOnly {
		t.Errorf("holder %+v", *h)
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if h := held(); h != nil {
		t.Errorf("holder %+v after its end", *h)
	}
}

// This test runs on a server of its own. It covers the other kinds of holders, holders in other databases, and what an
// ordinary role can see of them.
func TestHealthFindsOtherHolders(t *testing.T) {
	t.Parallel()
	server, db := newServer(t, map[string]string{"max_prepared_transactions": "5", "wal_level": "logical"})
	table := db.table(workqueue.Spec{Table: "work"})
	db.exec("CREATE DATABASE other")
	elsewhere := strings.Replace(server.URL(), "/postgres?", "/other?", 1)

	db.exec("SELECT pg_create_logical_replication_slot('forgotten', 'test_decoding')")
	prepared, err := pgx.Connect(t.Context(), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close(context.Background())
	if _, err := prepared.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'in doubt'",
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	reader := db.hold(elsewhere)
	writer := db.hold(elsewhere)
	if _, err := writer.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}

	t.Run("everything", func(t *testing.T) {
		h := db.health(db.Pool, table)
		if p := find(h.Holders, func(h reaper.Holder) bool { return h.Kind == reaper.PreparedTransaction }); p == nil ||
			p.Name != "in doubt" || p.Database != "other" || p.XminAge < 40 || p.Age <= 0 {
			t.Errorf("prepared transaction %+v", p)
		}
		if h.Holders[0].Kind != reaper.PreparedTransaction {
			t.Errorf("the first is %+v, want the oldest that holds back more than the catalogs", h.Holders[0])
		}
		if s := find(h.Holders, func(h reaper.Holder) bool { return h.Kind == reaper.ReplicationSlot }); s == nil ||
			s.Name != "forgotten" || s.State != "inactive" || !s.CatalogOnly {
			t.Errorf("slot %+v", s)
		}
		if w := find(h.Holders,
			func(h reaper.Holder) bool { return h.PID == int32(writer.PgConn().PID()) }); w == nil ||
			w.Database != "other" {
			t.Errorf("writer in another database %+v", w)
		}
		if r := find(h.Holders, func(h reaper.Holder) bool { return h.PID == int32(reader.PgConn().PID()) }); r != nil {
			t.Errorf("a snapshot of another database holds back nothing here: %+v", r)
		}
		if h.HiddenSessions != 0 {
			t.Errorf("%d hidden sessions from the superuser", h.HiddenSessions)
		}
	})
	t.Run("a role that may not see the sessions", func(t *testing.T) {
		db.exec("CREATE ROLE viewer LOGIN; GRANT USAGE ON SCHEMA own TO viewer; GRANT SELECT ON ALL TABLES IN SCHEMA " +
			"own TO viewer")
		h := db.health(newPool(t, strings.Replace(server.URL(), "postgres@", "viewer@", 1)), table)
		if len(h.Tables) != 1 || h.HiddenSessions < 2 {
			t.Errorf("health %+v, want the table and the two sessions counted", h)
		}
		if p := find(h.Holders, func(h reaper.Holder) bool { return h.Kind == reaper.PreparedTransaction }); p == nil {
			t.Error("the prepared transaction is everybody's to see")
		}
	})
	db.exec("SELECT pg_drop_replication_slot('forgotten')")
}

// A parallel worker that starts has no type yet. It hides nothing.
func TestParallelWorkersHideNothing(t *testing.T) {
	t.Parallel()
	server, db := newServer(t, map[string]string{"parallel_setup_cost": "0", "parallel_tuple_cost": "0",
		"min_parallel_table_scan_size": "0", "max_worker_processes": "32", "max_parallel_workers": "32"})
	db.exec("CREATE TABLE own.large AS SELECT generate_series(1, 100) AS n")
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop()
	for range 8 {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		busy.Go(func() {
			defer conn.Close(context.Background())
			for ctx.Err() == nil {
				if _, err := conn.Exec(ctx, "SELECT count(*) FROM own.large"); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 500 {
		_, hidden, err := reaper.Holders(t.Context(), db.Pool)
		if err != nil {
			t.Fatal(err)
		}
		if hidden != 0 {
			t.Fatalf("%d hidden sessions from the superuser", hidden)
		}
	}
}

func TestHealthAsJSON(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	table := db.table(workqueue.Spec{Table: "work"})
	h := db.health(db.Pool, table)
	h.Holders = []reaper.Holder{{Kind: reaper.Transaction, PID: 7, State: "active", XminAge: 3, Age: time.Second}}
	h.HiddenSessions = 0
	got, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tables":[{"table":"` + table.Name() +
		`","ready":0,"scheduled":0,"in_progress":0,"expired":0,"waiting":0,"failed":0,"cancelled":0,"oldest_ready":0,` +
		`"partial":false,"oldest_expired":0}],` +
		`"holders":[{"kind":"transaction","pid":7,"state":"active","xmin_age":3,"age":1000000000}],"hidden_sessions":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
