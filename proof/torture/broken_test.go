//go:build unix

package torture

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var broken = flag.Bool("broken", false, "also torture builds that are broken on purpose")

// A breakage takes a guard out of the library. The sources stay unchanged: the compiler reads edited copies instead.
type breakage struct {
	edits []edit
	fault string
	finds []string      // violations of any of these invariants, or beginnings of failures, count as found
	takes time.Duration // how long faults strike; 0 is 30 s
	poll  time.Duration // the workers' poll interval; 0 is the default
}

// An edit replaces every occurrence of a text in a file.
type edit struct{ file, old, new string }

const settleGuard = " AND t.owner_token = s.token AND"

const seesAll = "pg_catalog.row_security_active("

var breakages = map[string]breakage{
	"the token is not checked": {
		edits: []edit{
			{"workqueue/sql/ack.sql", settleGuard, " AND"},
			{"workqueue/sql/ack_one.sql", " t.owner_token = @owner_token::uuid AND", " @owner_token::uuid IS NOT NULL AND"},
			{"workqueue/sql/abandon.sql", settleGuard, " AND"},
			{"workqueue/sql/put_back.sql", settleGuard, " AND"},
			{"workqueue/sql/fail.sql", settleGuard, " AND"},
		},
		fault: "zombie", finds: []string{"I4"},
	},
	// The rows of a claim are dispatched when they have been read, before its COMMIT is sent.
	"rows are dispatched before the claim commits": {
		edits: []edit{
			{"workqueue/internal/conn/pool.go", "	begins := !keepsSettings(conn) ||",
				"	late := len(calls) == 1 && calls[0].Lazy\n	begins := late || !keepsSettings(conn) ||"},
			{"workqueue/internal/conn/pool.go", "	if begins {\n		batch.Queue(\"COMMIT\")\n	}\n	return " +
				"readTransaction(conn.SendBatch(ctx, batch), own, calls)\n", `
	if !late {
		if begins {
			batch.Queue("COMMIT")
		}
		return readTransaction(conn.SendBatch(ctx, batch), own, calls)
	}
	results := conn.SendBatch(ctx, batch)
	for range own {
		if _, err := results.Exec(); err != nil {
			results.Close()
			return err
		}
	}
	err = readCall(results, calls[0])
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	dispatched <- conn
	return nil
`},
			{"workqueue/internal/conn/pool.go", "	defer conn.Release()\n\n	err = p.send", `
	late := len(calls) == 1 && calls[0].Lazy
	defer func() {
		if !late || err != nil {
			conn.Release()
			return
		}
		c := <-dispatched
		go func() {
			time.Sleep(time.Millisecond)
			c.Exec(context.Background(), "COMMIT")
			conn.Release()
		}()
	}()

	err = p.send`},
			{"workqueue/internal/conn/pool.go", "// maxConflictRetries bounds",
				"var dispatched = make(chan *pgx.Conn, 1000)\n\n// maxConflictRetries bounds"},
			{"workqueue/internal/conn/pool.go", "once(ctx context.Context, calls []Call) error {",
				"once(ctx context.Context, calls []Call) (err error) {"},
		},
		fault: "backend-terminate", finds: []string{"I3"},
	},
	"attempts are counted when they fail": {
		edits: []edit{
			{"workqueue/sql/claim.sql", "    attempts = t.attempts + 1,\n", ""},
			{"workqueue/sql/abandon.sql", "    last_error =", "    attempts = t.attempts + 1,\n    last_error ="},
			{"workqueue/sql/put_back.sql",
				"CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END", "t.attempts"},
		},
		fault: "worker-kill", finds: []string{"I6"},
	},
	// The reaper first reads which leases have expired, and then updates the rows by id alone.
	"the reaper goes by id alone": {
		edits: []edit{
			{"workqueue/sql/reap_expired.sql", "SELECT k.ctid, k.alone", "SELECT k.id, k.alone"},
			{"workqueue/sql/reap_expired.sql", "WHERE t.ctid = l.ctid", "WHERE t.id = l.id"},
			{"workqueue/sql/reap_expired.sql", "LIMIT @max_rows::int\n    FOR NO KEY UPDATE SKIP LOCKED",
				"LIMIT @max_rows::int"},
		},
		fault: "zombie", finds: []string{"I3", "I4", "I5"}, takes: 40 * time.Second, // it needs a race
	},
	// Whatever releases the next row of a key tries the lock of the key's writers, which they pass on among themselves.
	"a hot key waits for its writers to pause": {
		edits: []edit{{
			"migrations/sql/001_outbox.up.sql", "AS r\n            WHERE h.behind IS NULL)",
			"AS r\n            WHERE h.behind IS NULL AND pg_try_advisory_xact_lock(hashtextextended('{{schema}}.outbox ' || " +
				"h.key, 1)))",
		}},
		fault: "hot-key", finds: []string{progress + ", producers of one key"},
	},
	"a settle waits for the row of its join": {
		edits: []edit{{"migrations/sql/006_jobs.up.sql",
			`    INSERT INTO "{{schema}}"."jobs_join_note" (member_id, gone)`, `
    PERFORM FROM "{{schema}}"."jobs_join" AS j JOIN "{{schema}}"."jobs_join_member" AS m ON m.join_id = j.id
    WHERE m.member_id = OLD.id FOR NO KEY UPDATE OF j;
    INSERT INTO "{{schema}}"."jobs_join_note" (member_id, gone)`}},
		// one of five holders
		fault: "open-transaction", finds: []string{progress + ", a transaction that has locked a join"},
		takes: 45 * time.Second,
	},
	// A sweep waits for the locked place where the last one ended, and the next claim waits for the sweep.
	"claims wait for sweeps": {
		edits: []edit{
			{"migrations/sql/006_jobs.up.sql", `IF NOT EXISTS (SELECT FROM "{{schema}}"."jobs_key_cursor") THEN`,
				"IF true THEN"},
			{"workqueue/upkeep_tablework.go", "		if len(t.table.spec.Sweeps) > 0 {", "		if false {"},
			{"workqueue/worker.go", "	cancelsSeen atomic.Int64",
				"	sweptAt time.Time\n	cancelsSeen atomic.Int64"},
			{"workqueue/worker_loop.go", "		cancels := w.cancelsSeen.Load()\n", `
		if len(w.table.spec.Sweeps) > 0 && time.Since(w.sweptAt) > sweepAtLeastEvery {
			w.work.within(context.WithoutCancel(ctx), func(ctx context.Context) error {
				_, err := w.queue.Sweep(ctx, sweepLimit)
				return err
			})
			w.sweptAt = time.Now()
		}
		cancels := w.cancelsSeen.Load()
`},
		},
		fault: "open-transaction", finds: []string{progress + ", a transaction that has swept"},
		takes: 45 * time.Second,
	},
	// A batch is divided only if the error says that it is a row's fault; after any other error the whole batch is
	// retried.
	"a refused row fails its batch": {
		edits: []edit{
			{"workqueue/settler_bisect.go", "case kind == fault.Away && waits < patientWaits:", "case kind == fault.Away:"},
			{"workqueue/internal/fault/statement.go", `"08", "25", "40", "53", "57", "58": //`,
				`"08", "0A", "25", "40", "42", "53", "54", "57", "58", "XX": //`},
		},
		fault: "refused-rows", finds: []string{progress + ", rows that cannot be settled"},
	},
	// Rows that become visible behind an announcer's cursors are found only by the next poll.
	"an announcer does not look back": {
		edits: []edit{
			{"workqueue/announcer_awake.go", "back && h.before(l.cursor)", "false && h.before(l.cursor)"},
			{"workqueue/announcer_awake.go", "if !start.Before(d.nextBeat) {", "if false {"},
			{"workqueue/announcer_awake.go", "	}\n	return d.announceAll(ctx)\n", "	}\n	return nil\n"},
		},
		fault: "rush", finds: []string{"wake"}, takes: time.Minute, poll: 10 * time.Second,
	},
	"a reaper keeps tables that it cannot serve": {
		edits: []edit{{"reaper/resign.go", "resigns = append(resigns, t.Table)", "_ = resigns"}},
		fault: "lost-rights", finds: []string{"nobody took over"},
	},
	// A tenant's worker folds notes and sweeps, and takes the rows that it does not see for gone.
	"a role concludes from rows that it does not see": {
		edits: []edit{
			{"migrations/sql/001_outbox.up.sql", seesAll, "false AND " + seesAll},
			{"migrations/sql/006_jobs.up.sql", seesAll, "false AND " + seesAll},
		},
		fault: "tenants", finds: []string{"nobody took over", "I8", "I10"}, takes: 45 * time.Second,
	},
	"a reaper leads tables of which rows are hidden": {
		edits: []edit{{"reaper/sql/elect.sql", "AND row_security_active(c.oid)", "AND false"}},
		fault: "tenants", finds: []string{"nobody took over"}, takes: 45 * time.Second,
	},
	"an announcer keeps the lock and announces nothing": {
		edits: []edit{
			{"workqueue/announcer_awake.go",
				`return d.exec(ctx, "SELECT "+d.table.spec.announcing().Notify("'"+payload+"'"))`,
				"return nil"},
		},
		fault: "rush", finds: []string{"wake"}, takes: time.Minute, poll: 10 * time.Second,
	},
}

// The harness has to find out each of these within a minute.
func TestBrokenBuilds(t *testing.T) {
	if !*broken {
		t.Skip("takes minutes: run it with -broken")
	}
	for _, name := range slices.Sorted(maps.Keys(breakages)) {
		t.Run(name, func(t *testing.T) {
			b := breakages[name]
			program := build(t, b.edits)
			start := time.Now()
			report, err := Run(t.Context(), Options{
				Seed: 1, Duration: cmp.Or(b.takes, 30*time.Second), Pause: 500 * time.Millisecond, Poll: b.poll,
				Faults: []string{b.fault}, Program: []string{program, MemberCommand},
			})
			if !errors.Is(err, ErrViolated) || report == nil {
				t.Fatalf("nothing was found: %v", err)
			}
			found := slices.Concat(slices.Sorted(maps.Keys(report.Violations)), report.Failures)
			t.Logf("found %v after %v, of which it drained for %v", shortened(report),
				time.Since(start).Round(time.Second), report.DrainedIn.Round(time.Second))
			if !slices.ContainsFunc(b.finds, func(want string) bool {
				return slices.ContainsFunc(found, func(what string) bool { return strings.HasPrefix(what, want) })
			}) {
				t.Errorf("found %q, want one of %q", found, b.finds)
			}
		})
	}
}

// shortened describes in one line what was found.
func shortened(r *Report) string {
	if len(r.Failures) == 0 {
		return fmt.Sprint(r.Violations)
	}
	return fmt.Sprint(r.Violations, " and ", len(r.Failures), " failures, such as: ", r.Failures[0])
}

// The broken builds are not run with every change. This test checks that the texts they replace still exist and that
// the result compiles, with all edits at once.
func TestBreakagesFitTheSources(t *testing.T) {
	t.Parallel()
	var edits []edit
	for _, name := range slices.Sorted(maps.Keys(breakages)) {
		edits = append(edits, breakages[name].edits...)
	}
	compile(t, t.TempDir(), edits, "./workqueue")
}

// build compiles the command with the edits in it.
func build(t *testing.T, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "proof")
	compile(t, dir, edits, "-o", program, "./proof")
	return program
}

// compile makes the compiler read edited copies of the files, which it writes into a directory.
func compile(t *testing.T, dir string, edits []edit, args ...string) {
	t.Helper()
	root := sourceRoot(t)
	replace := map[string]string{}
	for file, text := range edited(t, root, edits) {
		path := filepath.Join(dir, filepath.Base(file))
		write(t, path, []byte(text))
		replace[filepath.Join(root, file)] = path
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	write(t, overlay, encoded)
	cmd := exec.Command("go", append([]string{"build", "-overlay", overlay}, args...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// edited returns the files with the edits made.
func edited(t *testing.T, root string, edits []edit) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, e := range edits {
		if _, read := texts[e.file]; !read {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[e.file] = string(text)
		}
		if !strings.Contains(texts[e.file], e.old) {
			t.Fatalf("%s does not contain the text to be replaced: %s", e.file, e.old)
		}
		texts[e.file] = strings.ReplaceAll(texts[e.file], e.old, e.new)
	}
	return texts
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sourceRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.Split(string(out), "\n")[0])
}
