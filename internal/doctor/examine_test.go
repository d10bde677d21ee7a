package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func TestAFreshSchemaIsHealthy(t *testing.T) {
	w := newServerWard(t, sound)
	if r := w.examine(); len(r.Findings) > 0 || r.Worst() != "" {
		t.Errorf("findings %+v", r.Findings)
	}
}

// Tables that a schema was not meant to have are not reported as missing.
func TestASchemaOfOneDomainIsHealthy(t *testing.T) {
	w := newServerWard(t, sound, migrations.Reaper, migrations.Jobs)
	must(t, workqueue.InTx(t.Context(), w.Pool, func(tx workqueue.Tx) error {
		_, err := w.jobs.Enqueue(t.Context(), tx, jobs.Insert{Args: letter{}})
		return err
	}))
	if r := w.examine(); len(r.Findings) > 0 {
		t.Errorf("findings %+v", r.Findings)
	}
}

// looks is how many examinations TestAHealthySystemUnderLoad makes, and every is the time between two of them.
var (
	looks = flag.Int("looks", pgtest.Size(6, 20), "examinations of TestAHealthySystemUnderLoad")
	every = flag.Duration("every", 50*time.Millisecond, "time between those examinations")
)

// With producers, workers, schedules and the reaper at work, and with retries, order by key, limits and joins, there
// are no findings. The costs of the examinations are logged: go test ./internal/doctor -run TestAHealthySystemUnderLoad
// -looks 100 -every 10s -timeout 2h -v
func TestAHealthySystemUnderLoad(t *testing.T) {
	w := newServerWard(t, sound)
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	var done atomic.Int64 // number of handlers that returned without an error
	background.Go(func() {
		if err := w.allDomains(ctx, &done).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	background.Go(func() { w.produces(ctx, &done) })
	w.becomes("work is done", func() bool { return done.Load() > 100 })

	// Windows with and without an examination alternate in the order with, without, without, with, so that a drift
	// affects both alike.
	var cost comparison
	for range *looks {
		for _, examines := range [][]bool{{true, false}, {false, true}}[cost.pairs()%2] {
			start, before := time.Now(), done.Load()
			if examines {
				if f := w.examine().Findings; len(f) > 0 {
					t.Fatalf("findings %+v", f)
				}
			}
			pgtest.Pass(*every - time.Since(start))
			cost.add(examines, float64(done.Load()-before)/time.Since(start).Seconds())
		}
	}
	t.Logf("%d examinations, no finding; %s", *looks, cost)
}

// allDomains serves the tables of the ward. One message in ten is retried.
func (w *ward) allDomains(ctx context.Context, done *atomic.Int64) *service.Service {
	w.Helper()
	w.in(func(tx workqueue.Tx) error { return w.jobs.SetLimits(ctx, tx, "mail", jobs.Limits{MaxRunning: 3}) })
	relay, err := outbox.NewRelay(w.Pool, w.box, outbox.RelayOptions{})
	must(w, err)
	relay.HandleAll(func(_ context.Context, d *outbox.Delivery) error {
		if d.Attempt == 1 && d.ID[15]%10 == 0 {
			return errors.New("try again")
		}
		done.Add(1)
		return nil
	})
	registry := jobs.NewRegistry()
	jobs.Register(registry, func(context.Context, *jobs.Job[letter]) error {
		done.Add(1)
		return nil
	}, jobs.KindOptions[letter]{})
	worker, err := jobs.NewWorker(w.Pool, w.jobs, jobs.WorkerOptions{Registry: registry,
		Queues: []jobs.QueueOptions{{Name: "default"}, {Name: "mail"}}})
	must(w, err)
	clock, err := timers.Open(timers.Options{Schema: w.Schema, Telemetry: silent})
	must(w, err)
	w.in(func(tx workqueue.Tx) error {
		return clock.Schedules().Put(ctx, tx, timers.Schedule{Name: "tick", Expr: "@every 1s", Topic: "tick"})
	})
	firing, err := timers.NewWorker(w.Pool, clock, timers.WorkerOptions{})
	must(w, err)
	firing.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
	s, err := service.New(w.Pool, service.Options{}, relay, worker, firing)
	must(w, err)
	return s
}

// produces writes as fast as the workers work: at most inHand rows are unfinished.
func (w *ward) produces(ctx context.Context, done *atomic.Int64) {
	const inHand, each = 300, 15
	written := int64(0)
	for i := 0; ctx.Err() == nil; i++ {
		if written-done.Load() > inHand {
			pgtest.Pass(time.Millisecond)
			continue
		}
		key := fmt.Sprint("k", i%7)
		w.in(func(tx workqueue.Tx) error {
			_, err := w.box.EnqueueMany(w.Context(), tx, append(messages("a", 5), outbox.Message{Topic: "b", Key: key,
				Payload: []byte("{}")})...)
			if err == nil {
				_, err = w.box.StartJoin(w.Context(), tx, outbox.Join{Steps: messages("step", 3)})
			}
			return err
		})
		w.enqueueJobs("mail", 3)
		w.enqueueJobs("default", 3)
		written += each
	}
}

// A comparison is the throughputs, in rows a second, of windows with and without an examination.
type comparison struct{ with, without []float64 }

func (c *comparison) add(examines bool, rate float64) {
	if examines {
		c.with = append(c.with, rate)
	} else {
		c.without = append(c.without, rate)
	}
}

func (c comparison) pairs() int { return len(c.without) }

// String returns the mean cost and its standard error, over the pairs of windows.
func (c comparison) String() string {
	costs, mean, squares := make([]float64, len(c.with)), 0.0, 0.0
	for i, with := range c.with {
		costs[i] = 100 * (1 - with/c.without[i])
		mean += costs[i] / float64(len(costs))
	}
	for _, cost := range costs {
		squares += (cost - mean) * (cost - mean)
	}
	n := float64(len(costs))
	slices.Sort(c.without)
	slices.Sort(costs)
	return fmt.Sprintf("one every %v costs %.2f %% of the throughput (standard error %.2f, median %.2f), "+
		"which is %.0f rows/s in the median without", *every, mean, math.Sqrt(squares/n/max(n-1, 1)),
		costs[len(costs)/2], c.without[len(c.without)/2])
}

// A role without any rights learns what it may not see, and a viewer sees the queues.
func TestRolesWithFewRights(t *testing.T) {
	w := newServerWard(t, sound)
	w.enqueue(messages("a", 1)...)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	role, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}")
	r, err := doctor.Examine(t.Context(), pool, w.options())
	must(t, err)
	if len(r.Findings) > 0 || r.Role != role || r.Complete() {
		t.Errorf("report %+v", r)
	}
	skipped := map[string]doctor.Skipped{}
	for _, s := range r.Skipped {
		skipped[s.Check+" "+s.Table] = s
	}
	for _, what := range []string{"expired-leases outbox", "unserved jobs", "schema ", "retention inbox",
		"blocked-key outbox", "stuck-join jobs"} {
		if s, ok := skipped[what]; !ok || !strings.Contains(s.Reason, "permission denied") ||
			!strings.Contains(s.Remedy, "txwork roles") {
			t.Errorf("%s: %+v", what, s)
		}
	}
	if s := skipped["horizon-held "]; !strings.Contains(s.Remedy, "GRANT pg_read_all_stats TO") {
		t.Errorf("sessions of others: %+v", s)
	}

	roles, err := migrations.Roles(migrations.RoleOptions{Schema: w.Schema, Prefix: role})
	must(t, err)
	w.exec(roles)
	t.Cleanup(func() {
		for _, s := range []string{"operator", "viewer", "worker", "producer", "migrator", "owner"} {
			name := role + "_" + s
			_, err := w.Pool.Exec(context.Background(), "REASSIGN OWNED BY "+name+" TO CURRENT_USER; DROP OWNED BY "+
				name+"; DROP ROLE "+name)
			if err != nil {
				t.Error(err)
			}
		}
	})
	w.exec("GRANT " + role + "_viewer, pg_read_all_stats TO " + role)
	r, err = doctor.Examine(t.Context(), pool, w.options())
	must(t, err)
	if len(r.Findings) != 1 || r.Findings[0].Code != "unserved" {
		t.Errorf("findings %+v", r.Findings)
	}
	for _, s := range r.Skipped {
		t.Errorf("skipped %+v", s)
	}

	// What the viewer may not read yet is granted by the same SQL again, and not by a circular grant.
	w.exec("REVOKE SELECT ON outbox FROM " + role + "_viewer")
	r, err = doctor.Examine(t.Context(), pool, w.options())
	must(t, err)
	again := fmt.Sprintf("run the SQL that `txwork roles --prefix %s --schema %s` prints again", role, w.Schema)
	if r.Complete() || !strings.HasPrefix(r.Skipped[0].Remedy, again) {
		t.Errorf("skipped %+v", r.Skipped)
	}
	w.exec(roles)
	if r, err = doctor.Examine(t.Context(), pool, w.options()); err != nil || !r.Complete() {
		t.Errorf("%+v, %v", r.Skipped, err)
	}
}

func TestWhatIsIgnored(t *testing.T) {
	w := newWard(t)
	w.exec("GRANT SELECT ON outbox TO PUBLIC")
	w.finds("public-rights", nil)
	w.goneNow("public-rights", nil, func(o *doctor.Options) { o.Ignore = []string{"public-rights"} })
	for _, o := range []doctor.Options{{Schema: w.Schema, Ignore: []string{"bogus"}}, {Schema: "No"},
		{Schema: w.Schema, Timeout: -1},
		{Schema: w.Schema, StatementTimeout: time.Microsecond}} {
		if _, err := doctor.Examine(t.Context(), w.Pool, o); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := doctor.Examine(t.Context(), nil, doctor.Options{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("without a pool: %v", err)
	}
}

// On a server on which hardly a statement ends in time, each check says that it could not look.
func TestAServerThatIsTooBusy(t *testing.T) {
	w := newWard(t)
	r, err := doctor.Examine(t.Context(), w.Pool,
		doctor.Options{Schema: w.Schema, Timeout: time.Minute, StatementTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Skipped,
		func(s doctor.Skipped) bool { return s.Remedy == "raise the statement timeout" }) {
		t.Errorf("skipped %+v", r.Skipped)
	}
}

// An examination that runs out of time reports what it has not examined.
func TestTheTimeoutOfAnExamination(t *testing.T) {
	w := newWard(t)
	holder := w.session("ddl")
	w.says(holder, "BEGIN", "LOCK TABLE outbox, jobs, timers, inbox IN ACCESS EXCLUSIVE MODE")
	r, err := doctor.Examine(t.Context(), w.Pool, doctor.Options{Schema: w.Schema, Timeout: 300 * time.Millisecond})
	if err == nil {
		if len(r.Skipped) == 0 {
			t.Errorf("nothing was skipped: %+v", r)
		}
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	w := newServerWard(t, sound)
	w.exec("GRANT SELECT ON outbox TO PUBLIC; DROP INDEX outbox_done_idx")
	w.enqueue(messages("a", 1)...)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	r := w.examine()
	var order []string
	for _, f := range r.Findings {
		order = append(order, string(f.Severity)+" "+f.Code)
	}
	if fmt.Sprint(order) != "[critical schema critical unserved warning public-rights]" ||
		r.Worst() != doctor.Critical || r.Count(doctor.Critical) != 2 {
		t.Errorf("findings %v", order)
	}
}

func TestEvidenceIsAnObject(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(doctor.Evidence{{Name: "pid", Value: int64(7)}, {Name: "key", Value: `a"b`},
		{Name: "ids", Value: []string{"x"}}})
	if err != nil || string(text) != `{"pid":7,"key":"a\"b","ids":["x"]}` {
		t.Errorf("%s, %v", text, err)
	}
}

// Each kind of finding is explained, and produced by a test of this package.
func TestKinds(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		tests.Write(text)
	}
	seen := map[string]bool{}
	for _, k := range doctor.Kinds() {
		if seen[k.Code] {
			t.Errorf("%s is there twice", k.Code)
		}
		seen[k.Code] = true
		if k.Title == "" || k.Meaning == "" || k.Remedy == "" || k.Severity == "" {
			t.Errorf("%s is not explained", k.Code)
		}
		if !strings.Contains(tests.String(), `finds("`+k.Code+`"`) && !strings.Contains(tests.String(), `Code == "`+
			k.Code+`"`) {
			t.Errorf("no test brings %s about", k.Code)
		}
	}
}

// DDL gets its turn between examinations that follow each other without a pause.
func TestExaminationsHoldUpNoDDL(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 100)...)
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for ctx.Err() == nil {
				if _, err := doctor.Examine(ctx, w.Pool, w.options()); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	conn := w.session("ddl")
	for range 20 {
		w.says(conn, "SET lock_timeout = '20s'", "ALTER TABLE outbox SET (fillfactor = 42)", "BEGIN",
			"LOCK TABLE outbox, jobs IN ACCESS EXCLUSIVE MODE", "COMMIT")
	}
	stop()
	looking.Wait()
}

// An examination waits for a locked table only once, and examines everything else.
func TestALockedTableIsWaitedForOnce(t *testing.T) {
	w := newServerWard(t, sound)
	w.enqueueJobs("mail", 1)
	w.exec("UPDATE jobs SET due_at = now() - interval '1 hour'")
	holder := w.session("ddl")
	w.says(holder, "BEGIN", "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
	pid := holder.PgConn().PID()
	r, err := doctor.Examine(t.Context(), w.Pool, w.options())
	must(t, err)
	if len(r.Findings) != 1 || r.Findings[0].Code != "unserved" {
		t.Errorf("findings %+v", r.Findings)
	}
	n := 0
	for _, s := range r.Skipped {
		if s.Table == "outbox" && s.Reason == "a table was locked for longer than 100ms" {
			n++
			if said := fmt.Sprint(s.Holders, s.Remedy); len(s.Holders) != 1 || s.Holders[0].Get("pid") != int64(pid) ||
				!strings.Contains(said, "LOCK TABLE outbox") || !strings.Contains(said, "ddl") ||
				s.Holders[0].Get("transaction_seconds") == nil || s.Holders[0].Get("query_seconds") == nil ||
				!strings.HasSuffix(s.Remedy, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid)) {
				t.Errorf("in the way: %+v", s)
			}
		} else if s.Check != "schema" {
			t.Errorf("skipped %+v", s)
		}
	}
	if n < 8 {
		t.Errorf("only %d checks of the locked table are named: %+v", n, r.Skipped)
	}
}

// Every check of rows of which a role sees only a part is named, and also those of tables that it sees are made.
func TestRowLevelSecurity(t *testing.T) {
	w := newWard(t)
	w.enqueue(messages("a", 1)...)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	role, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}",
		"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}", "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
	r, err := doctor.Examine(t.Context(), pool, w.options())
	must(t, err)
	named := map[string]bool{}
	for _, s := range r.Skipped {
		if strings.Contains(s.Reason, "row-level security shows role \""+role+"\"") {
			named[s.Check+" "+s.Table] = true
		}
	}
	if r.Complete() || !named["unserved outbox"] || !named["expired-leases outbox"] || named["unserved jobs"] {
		t.Errorf("skipped %+v", r.Skipped)
	}
	found := map[string]bool{}
	for _, f := range r.Findings {
		found[f.Code] = true
	}
	// What is set for a role of another test on this server is no finding of this one, nor are its connections.
	delete(found, "durability")
	delete(found, "connections")
	if len(found) != 2 || !found["nobody-sees-all"] || !found["side-policies"] { // which read no rows
		t.Errorf("findings %+v", r.Findings)
	}
}

// A missing side table or function is a check that was not made, also if the schema check is ignored.
func TestWhatIsMissing(t *testing.T) {
	w := newWard(t)
	w.exec("DROP TABLE jobs_queue CASCADE; DROP TABLE leader CASCADE")
	o := w.options()
	o.Ignore = []string{"schema"}
	r, err := doctor.Examine(t.Context(), w.Pool, o)
	must(t, err)
	w.enqueueOverdueJob()
	again, err := doctor.Examine(t.Context(), w.Pool, o)
	must(t, err)
	for _, what := range []struct {
		report doctor.Report
		check  string
		reason string
	}{{r, "no-reaper", "leader"}, {again, "unserved", "jobs_queue"}, {again, "queue-paused", "jobs_queue"}} {
		if !slices.ContainsFunc(what.report.Skipped, func(s doctor.Skipped) bool {
			return s.Check == what.check && strings.Contains(s.Reason, what.reason) && s.Remedy != ""
		}) {
			t.Errorf("%s is not named: %+v", what.check, what.report.Skipped)
		}
	}
}

// enqueueOverdueJob writes a job that has been due for an hour, as a client of another version would.
func (w *ward) enqueueOverdueJob() {
	w.Helper()
	w.exec("SET session_replication_role = replica; INSERT INTO jobs (kind, queue, priority, args, due_at) VALUES " +
		"('letter', 'mail', 2, '{}', now() - interval '1 hour'); RESET session_replication_role")
}

// Jobs of pg_cron that the role may not see could be what maintains the tables. Those that it sees count for the table
// that they name, in this database, if it was maintained in the last days.
func TestJobsOfPgCronThatAreHidden(t *testing.T) {
	w := newServerWard(t, sound)
	w.enqueue(messages("a", 1)...)
	_, err := w.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)
	w.exec("CREATE SCHEMA cron; CREATE TABLE cron.job (active bool, command text, username name, database text)")
	w.finds("no-reaper", nil)
	job := func(command, database string) {
		w.exec("DELETE FROM cron.job")
		w.exec("INSERT INTO cron.job VALUES (true, $1, current_user, $2)", command, database)
	}
	call := "CALL " + w.Schema + ".outbox_maintain()"
	job(call, w.Pool.Config().ConnConfig.Database)
	w.finds("no-reaper", nil) // it has never run to its end
	w.exec("SELECT leader_note($1)", w.Schema+".outbox")
	w.exec("UPDATE leader SET expires_at = now() - interval '3 hours', granted_at = now() - interval '3 hours'")
	w.goneNow("no-reaper", nil)
	for _, other := range []string{"CALL " + w.Schema + ".jobs_maintain()", "CALL my_outbox_maintain()",
		"SELECT outbox_maintain_partitions()"} {
		job(other, w.Pool.Config().ConnConfig.Database)
		w.finds("no-reaper", nil)
	}
	job(call, "another")
	w.finds("no-reaper", nil)
	w.exec("DELETE FROM cron.job")
	_, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}", "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
		"GRANT pg_read_all_stats TO {role}")
	hidden := func(reason string) {
		t.Helper()
		r, err := doctor.Examine(t.Context(), pool, w.options())
		must(t, err)
		if !slices.ContainsFunc(r.Skipped, func(s doctor.Skipped) bool {
			return s.Check == "no-reaper" && strings.Contains(s.Reason, reason) && s.Remedy != ""
		}) {
			t.Errorf("%q is not said: %+v", reason, r.Skipped)
		}
	}
	hidden("permission denied for schema cron")
	w.exec("GRANT USAGE ON SCHEMA cron TO PUBLIC")
	hidden("permission denied for table job")
	w.exec("GRANT SELECT ON cron.job TO PUBLIC; ALTER TABLE cron.job ENABLE ROW LEVEL SECURITY")
	hidden("a part of cron.job only")
	job(call, w.Pool.Config().ConnConfig.Database)
	w.goneNow("no-reaper", nil)
	w.exec("UPDATE leader SET expires_at = now() - interval '3 days', granted_at = now() - interval '3 days'")
	w.finds("no-reaper", nil) // the job fails, or was scheduled for another day
}

// If leaders are hidden, so may be what they could not do.
func TestLeadersThatAreHidden(t *testing.T) {
	w := newWard(t)
	w.exec("SELECT leader_note($1, 'a row is in the way')", w.Schema+".outbox")
	w.finds("failing-maintenance", nil)
	_, pool := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}", "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
		"GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {role}", "GRANT pg_read_all_stats TO {role}")
	w.exec("ALTER TABLE leader ENABLE ROW LEVEL SECURITY")
	r, err := doctor.Examine(t.Context(), pool, w.options())
	must(t, err)
	for _, check := range []string{"failing-maintenance", "no-reaper"} {
		if !slices.ContainsFunc(r.Skipped, func(s doctor.Skipped) bool {
			return s.Check == check && strings.Contains(s.Reason, "a part of the rows only") && s.Remedy != ""
		}) {
			t.Errorf("%s is not named: %+v", check, r.Skipped)
		}
	}
}

// Every check that looks at the lanes says that there are more than it looks at.
func TestMoreQueuesThanAreLookedAt(t *testing.T) {
	w := newWard(t)
	w.exec("INSERT INTO jobs (kind, queue, priority, args, due_at) SELECT 'letter', 'q' || i, 2, '', now() - " +
		"interval '1 hour' FROM generate_series(1, 300) AS g (i)")
	r, err := doctor.Examine(t.Context(), w.Pool, w.options())
	must(t, err)
	for _, check := range []string{"expired-leases", "unserved", "backlog", "queue-paused"} {
		if !slices.ContainsFunc(r.Skipped, func(s doctor.Skipped) bool {
			return s.Check == check && s.Table == "jobs" && strings.Contains(s.Reason, "100 or more combinations")
		}) {
			t.Errorf("%s is not named: %+v", check, r.Skipped)
		}
	}
}

// If rows are deleted when they are done, the rate at which they end is unknown.
func TestABacklogOfATableThatDeletes(t *testing.T) {
	w := newWard(t)
	spec := workqueue.Spec{Schema: w.Schema, Table: "letters", DeleteDone: true}
	up, _, err := spec.DDL()
	must(t, err)
	w.exec(up)
	table, err := workqueue.Open(spec, silent)
	must(t, err)
	w.exec("INSERT INTO letters (due_at) SELECT now() - interval '10 minutes' FROM generate_series(1, 5)")
	_, err = table.On(w.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)
	w.finds("backlog", []string{"letters: 4 ready rows", "the rate is unknown"})
}

// A standby can be examined too.
func TestAStandby(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), sound)
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	w := openWard(t, server.URL())
	w.migrate()
	w.enqueue(messages("a", 1)...)
	w.exec("UPDATE outbox SET due_at = now() - interval '1 hour'")
	must(t, os.WriteFile(filepath.Join(server.Dir(), "data", "standby.signal"), nil, 0o644))
	must(t, errors.Join(server.Crash(), server.Restart(t.Context())))
	w.Pool.Reset()
	if !ask[bool](w, "SELECT pg_is_in_recovery()") {
		t.Fatal("the server is no standby")
	}
	f := w.examine().Findings
	if len(f) != 1 || f[0].Code != "unserved" {
		t.Errorf("findings %+v", f)
	}
	w.exec("SELECT pg_promote()") // so that the schema can be dropped
}
