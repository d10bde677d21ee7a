package workqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// sweptRig is a table whose sweep records which process has called it.
func sweptRig(t *testing.T) *rig {
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { *s = sweptSpec(*s) }})
	r.exec("CREATE TABLE swept (by text, at timestamptz DEFAULT clock_timestamp())")
	r.exec(`CREATE FUNCTION notes_record(max_rows integer) RETURNS integer LANGUAGE sql
		AS 'INSERT INTO swept VALUES (current_setting(''application_name'')); SELECT 0'`)
	// something may wait for a sweep
	r.insertRows(workqueue.NewRow{DueAt: time.Now().Add(time.Hour), Values: []any{"later", ""}})
	return r
}

func sweptSpec(s workqueue.Spec) workqueue.Spec {
	s.Sweeps = []string{"record"}
	return s
}

// processOf starts a worker as another process would: on a pool and a runtime of its own, whose sessions have its name.
func (r *rig) processOf(name string, o workqueue.WorkerOptions) *running {
	r.Helper()
	pool := r.openPool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name })
	w := r.startOn(pool, r.Domain, o, ackAll)
	r.eventually(name+" to be ready", func() bool { return w.Ready() == nil })
	return w
}

// sweptBy returns which processes have swept since a time.
func (r *rig) sweptBy(since time.Time) string {
	r.Helper()
	return ask[string](r, "SELECT coalesce(string_agg(DISTINCT by, ', '), '') FROM swept WHERE at > $1", since)
}

func (r *rig) now() time.Time { return ask[time.Time](r, "SELECT clock_timestamp()") }

// leader returns which process holds the upkeep lock; empty: none.
func (r *rig) leader() string {
	r.Helper()
	return ask[string](r, "SELECT coalesce(min(a.application_name), '') "+leading, r.Table.Name()+" upkeep record")
}

const leading = `FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid, hashtextextended($1, 0) AS k (lock)
	WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
	AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid`

// Of several processes one sweeps a table. When it stops, another one does at once.
func TestOneProcessSweeps(t *testing.T) {
	t.Parallel()
	r := sweptRig(t)
	first := r.processOf("first", workqueue.WorkerOptions{})
	r.eventually("a leader", func() bool { return r.leader() == "first" })
	started := r.now()
	r.processOf("second", workqueue.WorkerOptions{})
	r.processOf("third", workqueue.WorkerOptions{NoListen: true})
	r.eventually("some sweeps", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM swept WHERE at > $1", started) >= 4
	})
	if by := r.sweptBy(started); by != "first" {
		t.Errorf("the table was swept by %q, want the first process", by)
	}
	stopped := r.now()
	if err := first.stop(t); err != nil {
		t.Error(err)
	}
	r.eventually("another to lead", func() bool { return r.leader() == "second" })
	r.eventually("it to sweep", func() bool { return strings.Contains(r.sweptBy(stopped), "second") })
}

// A leader loses its session, and a lock vanishes together with its process. In both cases the table goes to the
// process that comes first.
func TestAnotherProcessSweepsWhenTheLeaderIsGone(t *testing.T) {
	t.Parallel()
	r := sweptRig(t)
	frozen, err := r.Eyes.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Release()
	lock := func(call string) {
		if _, err := frozen.Exec(t.Context(), fmt.Sprintf("SELECT %s(hashtextextended('%s upkeep record', 0))", call,
			r.Table.Name())); err != nil {
			t.Fatal(err)
		}
	}
	lock("pg_advisory_lock")
	r.processOf("first", workqueue.WorkerOptions{})
	r.processOf("second", workqueue.WorkerOptions{NoListen: true})
	pgtest.Pass(2 * time.Second)
	if by := r.sweptBy(time.Time{}); by != "" {
		t.Errorf("the table is swept by %q, although another session leads", by)
	}
	lock("pg_advisory_unlock")
	r.eventually("a leader", func() bool { return r.leader() == "first" })
	killed := r.now()
	if !ask[bool](r, "SELECT bool_and(pg_terminate_backend(l.pid)) "+leading, r.Table.Name()+" upkeep record") {
		t.Fatal("the leader's session was not ended")
	}
	r.eventually("sweeps that go on", func() bool { return r.sweptBy(killed) != "" })
	r.eventually("a leader", func() bool { return r.leader() == "first" })
}

// Processes that cannot hold a lock sweep by themselves.
func TestProcessesThatDoNotListenSweepByThemselves(t *testing.T) {
	t.Parallel()
	r := sweptRig(t)
	r.processOf("first", workqueue.WorkerOptions{NoListen: true})
	started := r.now()
	r.eventually("sweeps", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM swept WHERE at > $1", started) >= 3
	})
	if leader := r.leader(); leader != "" {
		t.Errorf("%s leads", leader)
	}
}

// A process whose sweeps fail leaves them to others, which may have the privileges that it lacks.
func TestALeaderThatCannotSweepStepsDown(t *testing.T) {
	t.Parallel()
	r := sweptRig(t)
	r.exec(`CREATE OR REPLACE FUNCTION notes_record(max_rows integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('application_name') = 'unable' THEN RAISE 'not this one'; END IF;
		INSERT INTO swept VALUES (current_setting('application_name')); RETURN 0; END $$`)
	r.processOf("unable", workqueue.WorkerOptions{})
	r.eventually("a failure", func() bool { return strings.Contains(r.Logs.String(), "not this one") })
	r.processOf("able", workqueue.WorkerOptions{})
	r.eventually("another leader", func() bool { return r.leader() == "able" })
	r.eventually("it to sweep", func() bool { return r.sweptBy(time.Time{}) == "able" })
}

// A leader that cannot fold steps down, too, although its sweeps succeed: the other processes fold less often as long
// as one leads.
func TestALeaderThatCannotFoldStepsDown(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"a right that it lacks":      "insufficient_privilege",
		"a function that is missing": "undefined_function",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) {
				*s = sweptSpec(*s)
				s.Folds = []workqueue.Fold{{Suffix: "flip", Notes: "flip_note", Column: "topic"}}
			}})
			r.exec(fmt.Sprintf(`CREATE TABLE notes_flip_note (at timestamptz);
				CREATE FUNCTION notes_record(max_rows integer) RETURNS integer LANGUAGE sql AS 'SELECT 0';
				CREATE FUNCTION notes_flip(max_notes integer, since timestamptz, OUT folded integer,
					OUT released integer, OUT again double precision, OUT upto timestamptz) LANGUAGE plpgsql
				AS $$ BEGIN
				IF current_setting('application_name') = 'unable' THEN
					RAISE 'not this one' USING ERRCODE = '%s';
				END IF;
				folded := 0; released := 0; END $$`, code))
			r.insertRows(workqueue.NewRow{DueAt: time.Now().Add(time.Hour), Values: []any{"later", ""}})
			r.processOf("unable", workqueue.WorkerOptions{})
			r.eventually("a failure", func() bool { return strings.Contains(r.Logs.String(), "not this one") })
			r.processOf("able", workqueue.WorkerOptions{})
			r.eventually("another leader", func() bool { return r.leader() == "able" })
		})
	}
}
