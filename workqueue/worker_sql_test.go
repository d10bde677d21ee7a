package workqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/workqueue"
)

// A shell runs one statement, given as plain text, and returns the lines of its result.
type shell func(sql string) []string

// findPSQL looks for psql beside the server's binaries and in PATH.
func findPSQL() (string, bool) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if dir := os.Getenv(localpg.BinDirEnv); dir != "" {
		candidates = append(candidates, filepath.Join(dir, "psql"))
	}
	if path, err := exec.LookPath("psql"); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range slices.Backward(candidates) {
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

func (r *rig) psql(path string) shell {
	return func(sql string) []string {
		var out, complaints bytes.Buffer
		cmd := exec.CommandContext(r.Context(), path, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", r.URL,
			"-c", sql)
		cmd.Stdout, cmd.Stderr = &out, &complaints
		if err := cmd.Run(); err != nil {
			r.Errorf("psql: %v\n%s\n%s", err, sql, &complaints)
		}
		return strings.Fields(out.String())
	}
}

// plain does what psql does, without psql.
func (r *rig) plain(sql string) []string {
	rows, err := r.Eyes.Query(r.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		r.Error(err)
		return nil
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var cells []string
		for _, cell := range rows.RawValues() {
			cells = append(cells, string(cell))
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	if rows.Err() != nil {
		r.Errorf("%v\n%s", rows.Err(), sql)
	}
	return lines
}

func eachShell(t *testing.T, test func(t *testing.T, r *rig, sql shell)) {
	t.Parallel()
	t.Run("simple protocol", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, rigOptions{})
		test(t, r, r.plain)
	})
	if path, ok := findPSQL(); ok {
		t.Run("psql", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			test(t, r, r.psql(path))
		})
	}
}

// array returns ids as an array literal.
func array(ids []string) string { return "'{" + strings.Join(ids, ",") + "}'" }

// A worker in plain SQL and one in Go share a table and keep the same contract.
func TestSQLWorkerContract(t *testing.T) {
	eachShell(t, func(t *testing.T, r *rig, sql shell) {
		all := r.insertMany("shared", 10)
		token, stale := workqueue.NewOwnerToken().String(), uuid.NewString()
		claimed := sql(fmt.Sprintf("SELECT id FROM notes_fetch('%s', '60 s', 7) WHERE entry = 'row'", token))
		want := make([]string, 7)
		for i := range want {
			want[i] = all[i].String()
		}
		if !slices.Equal(claimed, want) {
			t.Fatalf("claimed %v, want the first seven in due order: %v", claimed, want)
		}
		same := func(what string, got, want []string) {
			t.Helper()
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s changed %v, want %v", what, got, want)
			}
		}
		call := func(what, format string, args ...any) []string {
			t.Helper()
			return sql(fmt.Sprintf("SELECT id FROM notes_"+what+"("+format+
				") WHERE result NOT IN ('repeated', 'lost', 'gone')", args...))
		}
		same("a stale ack", call("ack", "'%s', %s", stale, array(claimed)), nil)
		same("a stale extend", call("extend", "'%s', %s, '60 s'", stale, array(claimed)), nil)
		same("a stale retry", call("retry", "'%s', %s", stale, array(claimed)), nil)
		same("a stale fail", call("fail", "'%s', %s, 'no'", stale, array(claimed)), nil)
		same("an extend", call("extend", "'%s', %s, '600 s'", token, array(claimed)), claimed)
		same("an ack", call("ack", "'%s', %s", token, array(claimed[:2])), claimed[:2])
		same("a repeated ack", call("ack", "'%s', %s", token, array(claimed[:3])), claimed[2:3])
		same("a fail", call("fail", "'%s', %s, 'too bad'", token, array(claimed[3:4])), claimed[3:4])
		same("a retry", call("retry", "'%s', %s, '0', 'once more'", token, array(claimed[4:5])), claimed[4:5])
		if got := sql("SELECT requeued || ':' || failed FROM notes_reap_expired()"); !slices.Equal(got,
			[]string{"0:0"}) {
			t.Errorf("reaped %v from a lease that holds", got)
		}
		r.exec("UPDATE notes SET locked_until = now() - interval '1 second' WHERE id = ANY($1)", claimed[5:7])
		if got := sql("SELECT requeued || ':' || failed FROM notes_reap_expired()"); !slices.Equal(got,
			[]string{"2:0"}) {
			t.Errorf("reaped %v, want the two expired", got)
		}
		same("an ack after the reap", call("ack", "'%s', %s", token, array(claimed[5:7])), nil)

		handled := map[string]int{}
		var mu sync.Mutex
		started, release := make(chan string, 20), make(chan struct{})
		r.start(workqueue.WorkerOptions{Concurrency: 6}, func(_ context.Context, c *noteClaim) error {
			mu.Lock()
			handled[c.ID.String()] = c.Attempt
			mu.Unlock()
			started <- c.ID.String()
			<-release
			return nil
		})
		var running []string
		for range 6 { // three that were reaped or abandoned, three that no worker had
			running = append(running, receive(t, started, "the Go worker's handlers"))
		}
		same("an ack of the Go worker's rows", call("ack", "'%s', %s", token, array(running)), nil)
		fetch := fmt.Sprintf("SELECT id FROM notes_fetch('%s', '60 s', 100) WHERE entry = 'row'",
			workqueue.NewOwnerToken())
		if got := sql(fetch); len(got) != 0 {
			t.Errorf("claimed %v, which the Go worker holds", got)
		}
		close(release)
		r.eventually("the Go worker to finish", func() bool { return r.count("status = 2") == 9 })
		mu.Lock()
		byGo := maps.Clone(handled)
		mu.Unlock()
		for _, id := range claimed[:4] {
			if byGo[id] != 0 {
				t.Errorf("%s, settled by SQL, was handled by Go", id)
			}
		}
		// The first was abandoned. The leases of the others were lost together, which costs no attempt.
		for i, id := range claimed[4:7] {
			if want := []int{2, 1, 1}[i]; byGo[id] != want {
				t.Errorf("%s, given up by SQL, was handled by Go in attempt %d, want %d", id, byGo[id], want)
			}
		}
		same("a redrive", sql(fmt.Sprintf("SELECT id FROM notes_redrive(%s) WHERE changed", array(claimed))), claimed[3:4])
		r.eventually("the redriven row", func() bool { return r.count("status = 2") == 10 })
	})
}

// Both work at full speed on the same rows: each row is handled once.
func TestSQLWorkerBesideGoWorker(t *testing.T) {
	eachShell(t, func(t *testing.T, r *rig, sql shell) {
		const total = 600
		r.insertMany("shared", total)
		var mu sync.Mutex
		handled := map[string]int{}
		note := func(ids ...string) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				handled[id]++
			}
		}
		start := make(chan struct{})
		r.start(workqueue.WorkerOptions{Concurrency: 2, ClaimLimit: 5}, func(_ context.Context, c *noteClaim) error {
			<-start
			note(c.ID.String())
			return nil
		})
		bySQL := 0
		for r.count("status = 0") > 0 {
			token := workqueue.NewOwnerToken().String()
			ids := sql(fmt.Sprintf("SELECT id FROM notes_fetch('%s', '60 s', 20) WHERE entry = 'row'", token))
			note(ids...)
			if acked := sql(fmt.Sprintf("SELECT id FROM notes_ack('%s', %s, true)", token, array(ids))); len(acked) != len(ids) {
				t.Errorf("acked %d of %d", len(acked), len(ids))
			}
			if bySQL == 0 {
				close(start) // a shell takes longer to start than the Go worker to finish
			}
			bySQL += len(ids)
		}
		r.eventually("every row", func() bool { return r.count("status = 2 AND attempts = 1") == total })
		mu.Lock()
		defer mu.Unlock()
		if len(handled) != total {
			t.Errorf("%d rows handled of %d", len(handled), total)
		}
		for id, n := range handled {
			if n != 1 {
				t.Errorf("%s was handled %d times", id, n)
			}
		}
		t.Logf("%d rows by SQL, %d by Go", bySQL, total-bySQL)
	})
}
