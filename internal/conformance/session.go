package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// withDefault sets a run-time parameter for every session of a pool.
func withDefault(name, value string) pgtest.Option {
	return pgtest.WithPool(func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams[name] = value })
}

var poolWay = way{name: "pool", open: openPool(testsOwn)}

// Operations on a pool run at READ COMMITTED whatever the session's default: at a stricter level, concurrent claims,
// acks and reaps would fail with 40001, and the guards would see outdated rows.
func worksUnderIsolation(t *testing.T, c Case, level string) {
	s := newSuite(t, c, poolWay, withDefault("default_transaction_isolation", level))
	var isolation string
	s.ok(s.db.Pool.QueryRow(t.Context(), "SHOW transaction_isolation").Scan(&isolation))
	equal(s, "isolation", isolation, level)
	const workers, losses = 6, 3
	s.ready(300, maxAttempts(1+workers*losses)) // by chance, every worker may lose the same row each time
	s.recordIsolation()
	s.together(workers, func(int) error {
		for expired := 0; s.anyReady(); expired++ {
			if err := s.workOnce(expired < losses); err != nil {
				return err
			}
		}
		return nil
	})
	equal(s, "rows that did not end", scan[int](s, "SELECT count(*) FROM $T WHERE status <> 2"), 0)
	equal(s, "isolation of the operations", scan[string](s, "SELECT string_agg(DISTINCT level, ', ') FROM isolation"),
		"read committed")
}

// recordIsolation records the isolation level of every change to the table from now on. Without it, a retry would hide
// a wrong level.
func (s *suite) recordIsolation() {
	s.scratch("isolation", "level text")
	s.exec(`CREATE FUNCTION record_isolation() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO ` + s.db.Schema + `.isolation VALUES (current_setting('transaction_isolation')); RETURN NULL; END $$`)
	s.exec("CREATE TRIGGER record_isolation AFTER UPDATE OR DELETE ON $T FOR EACH STATEMENT EXECUTE FUNCTION " +
		"record_isolation()")
}

// A transaction that failed with a serialization conflict or a deadlock, even at its commit, is run again, and the
// result is that of the run that committed. Any other error is final, even if a further commit would succeed.
func runsLostConflictsAgain(t *testing.T, c Case) {
	s := newSuite(t, c, poolWay)
	ids := s.ready(3)
	s.exec("CREATE SEQUENCE commits")
	s.exec(`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('conformance.decided', true) = 'yes' THEN -- a row may have changed twice
				RETURN NULL;
			END IF;
			IF nextval('` + s.db.Schema + `.commits') % 6 <> 0 THEN RAISE EXCEPTION 'lost' USING ERRCODE = TG_ARGV[0]; END IF;
			PERFORM set_config('conformance.decided', 'yes', true);
			RETURN NULL;
		END $$`)
	for _, code := range []string{"40001", "40P01"} {
		s.loseCommits(code, func() {
			claimed := s.claim(10)
			s.sameIDs(claimed.ids, ids[:1])
			s.settled(abandonSettle(0), claimed.token, claimed.ids, claimed.ids, nil, nil)
		}, ids[0])
	}
	s.loseCommits("23514", func() {
		s.unchanged(ids, func() {
			got, err := s.tryClaim(10)
			equal(s, "SQLSTATE of "+fmt.Sprint(err), sqlState(err), "23514")
			s.sameIDs(got.ids, nil)
		})
	}, ids[0])
}

// loseCommits makes five of six commits that change a row fail while fn runs. All other rows are postponed.
func (s *suite) loseCommits(code string, fn func(), id uuid.UUID) {
	s.Helper()
	s.exec("UPDATE $T SET due_at = now() + CASE WHEN id = $1 THEN interval '0' ELSE interval '1 day' END", id)
	s.exec("CREATE CONSTRAINT TRIGGER lose AFTER UPDATE ON $T DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE " +
		"FUNCTION lose('" + code + "')")
	s.exec("SELECT setval('commits', 6)")
	fn()
	s.exec("DROP TRIGGER lose ON $T")
}

// workOnce claims rows, loses one of them to a reaper if told to, and acks the rest.
func (s *suite) workOnce(loseOne bool) error {
	c, err := s.tryClaim(10)
	if err != nil {
		return err
	}
	if loseOne && len(c.ids) > 0 {
		if err := s.expireOne(c); err != nil {
			return err
		}
		if _, err := s.tryReap(1); err != nil {
			return err
		}
	}
	err = s.try(func(ctx context.Context, o ops) error { _, err := o.ack(ctx, c.token, c.ids); return err })
	if err != nil && !isRefused(err) {
		return err
	}
	return s.makeDue()
}

func (s *suite) tryClaim(limit int) (c claim, err error) {
	c.token = workqueue.NewOwnerToken()
	err = s.try(func(ctx context.Context, o ops) (err error) {
		c.ids, err = o.claim(ctx, c.token, lease, limit, s.Lanes[0]...)
		return err
	})
	return c, err
}

// expireOne ends the lease of one row of a claim, without the library and at READ COMMITTED.
func (s *suite) expireOne(c claim) error {
	return s.readCommitted("UPDATE $T SET locked_until = now() - interval '1 second' WHERE id = $1 AND owner_token = "+
		"$2 AND status = 1", c.ids[0], c.token)
}

// makeDue saves the test from waiting for the backoff.
func (s *suite) makeDue() error {
	return s.readCommitted("UPDATE $T SET due_at = now() WHERE id IN (SELECT id FROM $T WHERE status = 0 AND due_at " +
		"> now() FOR UPDATE SKIP LOCKED)")
}

func (s *suite) readCommitted(query string, args ...any) error {
	return pgx.BeginTxFunc(s.Context(), s.eyes, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		_, err := tx.Exec(s.Context(), s.sql(query), args...)
		return err
	})
}

// An error of a database that refuses writes, as after a failover, can be distinguished from any other.
func reportsAReadOnlyDatabase(t *testing.T, c Case) {
	s := newSuite(t, c, poolWay)
	s.ready(1)
	s.exec(pgtest.RefusingWrites("$T"))
	pool := pgtest.NewPool(t, s.db, withDefault(pgtest.RefuseWrites, "on"))

	before := s.contents()
	o := onPool(s.table, pool)
	_, claimErr := o.claim(t.Context(), workqueue.NewOwnerToken(), lease, 1, s.Lanes[0]...)
	_, insertErr := o.insert(t.Context(), s.newRow())
	for _, err := range []error{claimErr, insertErr} {
		equal(s, fmt.Sprintf("errors.Is(%v, ErrReadOnly)", err), errors.Is(err, workqueue.ErrReadOnly), true)
	}
	equal(s, "table", s.contents(), before)
}

func ddlUpAndDown(t *testing.T, c Case) {
	db := pgtest.New(t)
	_, down, err := c.ddl(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	objects := `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
		+ (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)
		+ (SELECT count(*) FROM pg_type WHERE typnamespace = $1::regnamespace)`
	for range 2 {
		createTable(t, db, c)
		if _, err := db.Pool.Exec(t.Context(), down); err != nil {
			t.Fatalf("down: %v\n%s", err, down)
		}
		var left int
		if err := db.Pool.QueryRow(t.Context(), objects, db.Schema).Scan(&left); err != nil || left > 0 {
			t.Fatalf("%d objects are left, error %v", left, err)
		}
	}
}

// A table whose triggers are disabled, run in replicas only or are dropped is refused until the statement in the error
// is run, or the trigger is made again. Without announcements, work waits for the next poll.
func disabledTriggersAreRefused(t *testing.T, c Case) {
	s := newSuite(t, c, poolWay)
	type trigger struct{ Table, Name, Definition string }
	rows, _ := s.db.Pool.Query(t.Context(), `SELECT r.relname, t.tgname, pg_get_triggerdef(t.oid)
		FROM pg_class AS o
		JOIN pg_class AS r ON r.relnamespace = o.relnamespace AND (r.oid = o.oid OR starts_with(r.relname, o.relname || '_'))
		JOIN pg_trigger AS t ON t.tgrelid = r.oid AND NOT t.tgisinternal AND t.tgname !~ '_(announce|topic_changed)$'
		WHERE o.oid = $1::regclass`, s.table.Name())
	triggers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[trigger])
	s.ok(err)
	for _, trigger := range triggers {
		table := pgx.Identifier{s.db.Schema, trigger.Table}.Sanitize()
		for _, breaks := range []string{"ALTER TABLE %s DISABLE TRIGGER %s", "ALTER TABLE %s ENABLE REPLICA TRIGGER %s",
			"DROP TRIGGER %[2]s ON %[1]s"} {
			s.exec(fmt.Sprintf(breaks, table, pgx.Identifier{trigger.Name}.Sanitize()))
			err := s.table.CheckVersion(t.Context(), s.db.Pool)
			if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), trigger.Name) {
				t.Fatalf(breaks+": got the error %v, want ErrSchemaVersion", table, trigger.Name, err)
			}
			_, advice, _ := strings.Cut(err.Error(), ": run ")
			if strings.HasPrefix(breaks, "DROP") {
				advice = trigger.Definition // what migrate validate prints
			}
			s.exec(advice)
			s.ok(s.table.CheckVersion(t.Context(), s.db.Pool))
		}
	}
	for _, off := range []string{"DISABLE TRIGGER ALL", "ENABLE TRIGGER ALL"} {
		s.exec("ALTER TABLE " + s.table.Name() + " " + off)
		err := s.table.CheckVersion(t.Context(), s.db.Pool)
		equal(s, off+fmt.Sprintf(" with %d triggers is refused", len(triggers)), err != nil,
			off == "DISABLE TRIGGER ALL" && len(triggers) > 0)
	}
}

func tableCarriesItsVersion(t *testing.T, c Case) {
	s := newSuite(t, c, poolWay)
	s.ok(s.table.CheckVersion(t.Context(), s.db.Pool))
	for _, comment := range []string{"'txwork core 0'", "'txwork core 999'", "'mine'", "NULL"} {
		s.exec("COMMENT ON TABLE " + s.table.Name() + " IS " + comment)
		if err := s.table.CheckVersion(t.Context(), s.db.Pool); !errors.Is(err, workqueue.ErrSchemaVersion) {
			t.Errorf("with the comment %s: got the error %v, want ErrSchemaVersion", comment, err)
		}
	}
	s.exec("DROP TABLE " + s.table.Name() + " CASCADE")
	_, claimErr := s.table.On(s.db.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), lease, 1, s.Lanes[0]...)
	for _, err := range []error{s.table.CheckVersion(t.Context(), s.db.Pool), claimErr} {
		if !errors.Is(err, workqueue.ErrSchemaVersion) {
			t.Errorf("without the table: got the error %v, want ErrSchemaVersion", err)
		}
	}
}

// Rows that become claimable are announced on the table's channel, once for each transaction, when it commits.
func announces(s *suite) {
	heard := s.listen()
	heard("nothing")
	s.ready(3)
	heard("an insert", "due")

	c := s.claimed(4)
	heard("an insert", "due")
	s.settled(s.ackSettle(), c.token, c.ids[:1], c.ids[:1], nil, nil)
	s.settled(failSettle(), c.token, c.ids[1:2], c.ids[1:2], nil, nil)
	heard("claim and settles")

	s.do(func(ctx context.Context, o ops) error { _, err := o.redrive(ctx, c.ids[1:2], ""); return err })
	heard("a redrive", "due")
	s.do(func(ctx context.Context, o ops) error { _, err := o.redrive(ctx, c.ids[1:2], ""); return err })
	heard("a redrive of nothing")

	s.wantCancelled(c.ids[2])
	heard("a cancel of a running row", "cancel")
	s.expire(c.ids[2]) // its cancel ends it for good
	s.reap(10)
	heard("a reap that requeues nothing")
	s.expire(c.ids[3])
	s.reap(10)
	heard("a reap", "due")

	if s.way.transactional {
		tx := s.open()
		for range 2 {
			_, err := tx.insert(s.Context(), s.newRow())
			s.ok(err)
		}
		heard("an insert before its commit")
		s.ok(tx.commit())
		heard("two inserts of a transaction", "due")
		tx = s.open()
		_, err := tx.insert(s.Context(), s.newRow())
		s.ok(err)
		s.ok(tx.rollback())
		heard("a rolled-back insert")
	}
}

// listen returns a function that checks what was announced since its last call. A payload is the word cancel, or the
// earliest due time that was written, in microseconds. A marker that the test sends itself ends each wait.
func (s *suite) listen() func(what string, want ...string) {
	conn, err := pgx.Connect(s.Context(), s.db.URL)
	s.ok(err)
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	channel := s.table.Name()
	_, err = conn.Exec(s.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize())
	s.ok(err)
	since := s.clock()
	return func(what string, want ...string) {
		s.Helper()
		s.exec("SELECT pg_notify($1, 'marker')", channel)
		var got []string
		for {
			n, err := conn.WaitForNotification(s.Context())
			s.ok(err)
			if n.Payload == "marker" {
				break
			}
			if strings.HasPrefix(n.Payload, "note:") { // a domain's trigger asks for a fold
				continue
			}
			got = append(got, s.payload(n.Payload, since))
		}
		if !slices.Equal(got, want) {
			s.Fatalf("%s announced %q, want %q", what, got, want)
		}
	}
}

// payload replaces an announced due time by a word if it belongs to this test.
func (s *suite) payload(text string, since time.Time) string {
	var micros int64
	if _, err := fmt.Sscan(text, &micros); err != nil {
		return text
	}
	if at := time.UnixMicro(micros); at.Before(since) || at.After(s.clock()) {
		return "due at " + at.String()
	}
	return "due"
}
