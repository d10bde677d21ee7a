//go:build unix

package torture

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
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

// A breakage is a guard taken out of the product. Its sources stay as they are: the compiler is given other files in
// the place of theirs.
type breakage struct {
	edits []edit
	fault string
	finds []string      // any of these invariants
	takes time.Duration // how long it is struck; 0 is 30 s
}

// An edit replaces every occurrence of a text in a file.
type edit struct{ file, old, new string }

const settleGuard = " AND t.owner_token = s.token AND"

var breakages = map[string]breakage{
	"the token is not checked": {
		edits: []edit{
			{"workqueue/sql/ack.sql", settleGuard, " AND"},
			{"workqueue/sql/abandon.sql", settleGuard, " AND"},
			{"workqueue/sql/snooze.sql", settleGuard, " AND"},
			{"workqueue/sql/fail.sql", settleGuard, " AND"},
		},
		fault: "zombie", finds: []string{"I4"},
	},
	// The rows of a claim are handed on when they have been read, and its COMMIT is sent afterwards.
	"rows are dispatched before the claim commits": {
		edits: []edit{
			{"workqueue/pool.go", "	batch.Queue(\"COMMIT\")\n	return readTransaction(conn.SendBatch(ctx, batch), calls)\n", `
	if len(calls) != 1 || !calls[0].lazy {
		batch.Queue("COMMIT")
		return readTransaction(conn.SendBatch(ctx, batch), calls)
	}
	results := conn.SendBatch(ctx, batch)
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return errors.Join(err, results.Close())
		}
	}
	if err := errors.Join(readCall(results, calls[0]), results.Close()); err != nil {
		return err
	}
	dispatched <- conn
	return nil
`},
			{"workqueue/pool.go", "	defer conn.Release()\n\n	err = p.send", `
	late := len(calls) == 1 && calls[0].lazy
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
			{"workqueue/pool.go", "// maxConflictRetries bounds", "var dispatched = make(chan *pgx.Conn, 1000)\n\n// maxConflictRetries bounds"},
			{"workqueue/pool.go", "once(ctx context.Context, calls []call) error {", "once(ctx context.Context, calls []call) (err error) {"},
		},
		fault: "backend-terminate", finds: []string{"I3"},
	},
	"attempts are counted when they fail": {
		edits: []edit{
			{"workqueue/sql/claim.sql", "    attempts = t.attempts + 1,\n", ""},
			{"workqueue/sql/abandon.sql", "    last_error =", "    attempts = t.attempts + 1,\n    last_error ="},
			{"workqueue/sql/snooze.sql", "CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE t.attempts - 1 END", "t.attempts"},
		},
		fault: "worker-kill", finds: []string{"I6"},
	},
	// The reaper reads which leases have ended, and takes the rows by id alone when it comes to writing.
	"the reaper goes by id alone": {
		edits: []edit{
			{"workqueue/sql/reap_expired.sql", "WHERE t.ctid = ANY (ARRAY(\n        SELECT r.ctid", "WHERE t.id = ANY (ARRAY(\n        SELECT r.id"},
			{"workqueue/sql/reap_expired.sql", "LIMIT @max_rows::int\n        FOR NO KEY UPDATE SKIP LOCKED))", "LIMIT @max_rows::int))"},
		},
		fault: "zombie", finds: []string{"I3", "I4", "I5"}, takes: 40 * time.Second, // it needs a race
	},
}

// The harness has to find each of these within a minute.
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
				Seed: 1, Duration: cmp.Or(b.takes, 30*time.Second), Pause: 500 * time.Millisecond, Faults: []string{b.fault}, Program: []string{program, "torture", "member"},
			})
			if !errors.Is(err, ErrViolated) || report == nil {
				t.Fatalf("nothing was found: %v", err)
			}
			found := slices.Sorted(maps.Keys(report.Violations))
			t.Logf("found %v after %v, of which it drained for %v", report.Violations, time.Since(start).Round(time.Second), report.DrainedIn.Round(time.Second))
			if !slices.ContainsFunc(b.finds, func(i string) bool { return slices.Contains(found, i) }) {
				t.Errorf("found %v, want one of %v", found, b.finds)
			}
		})
	}
}

// build compiles the command with the edits in it.
func build(t *testing.T, edits []edit) string {
	t.Helper()
	root := sourceRoot(t)
	dir := t.TempDir()
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
			t.Fatalf("%s has not what is to be taken out: %s", e.file, e.old)
		}
		texts[e.file] = strings.ReplaceAll(texts[e.file], e.old, e.new)
	}
	replace := map[string]string{}
	for file, text := range texts {
		path := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = path
	}
	return compile(t, root, dir, replace)
}

func compile(t *testing.T, root, dir string, replace map[string]string) string {
	t.Helper()
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "txwork")
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./cmd/txwork")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func sourceRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.Split(string(out), "\n")[0])
}
