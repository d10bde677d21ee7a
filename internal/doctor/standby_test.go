//go:build unix

package doctor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/localpg"
)

// follow makes a hot standby of the ward's server with hot_standby_feedback, so that its queries hold back the primary.
func (w *ward) follow(backup ...string) *localpg.Server {
	w.Helper()
	command := filepath.Join(ask[string](w, "SELECT setting FROM pg_config WHERE name = 'BINDIR'"), "pg_basebackup")
	if _, err := os.Stat(command); err != nil {
		w.Skipf("there is no %s", command)
	}
	standby, err := localpg.Start(w.Context(), localpg.Options{Settings: map[string]string{
		"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"}})
	must(w, err)
	w.Cleanup(func() { standby.Stop() })
	must(w, standby.Crash())
	data := filepath.Join(standby.Dir(), "data")
	must(w, os.RemoveAll(data))
	owner, err := localpg.Credential()
	must(w, err)
	cmd := exec.CommandContext(w.Context(), command, append([]string{"-D", data, "-R", "-X", "stream",
		"--checkpoint=fast", "--no-sync", "-d", w.server.URL()}, backup...)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	must(w, standby.Restart(w.Context()))
	return standby
}

// A query on a standby with hot_standby_feedback holds back vacuum of the primary, either through the standby's
// connection or through its slot.
func TestAQueryOnAStandbyThatHoldsBackVacuum(t *testing.T) {
	for name, test := range map[string]struct {
		backup []string
		said   string
	}{
		"by its connection": {nil, `a query on standby walreceiver`},
		"by its slot":       {[]string{"-C", "-S", "report"}, `standby that uses replication slot "report"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServerWard(t, sound)
			w.exec("ALTER TABLE outbox SET (autovacuum_enabled = off)")
			standby := w.follow(test.backup...)
			report, err := pgx.Connect(t.Context(), standby.URL())
			must(t, err)
			defer report.Close(t.Context())
			w.says(report, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM "+w.Schema+".outbox LIMIT 1")
			few := thresholds(func(th *doctor.Thresholds) { th.SlotAge = 50 })
			said := []string{test.said}
			w.becomes("the primary hears of the query", func() bool {
				for range 20 {
					w.enqueue(messages("a", 1)...)
				}
				return w.with("horizon-held", said, few) != nil
			})
			w.exec("DELETE FROM outbox; SELECT pg_stat_force_next_flush()")
			if dead := w.vacuumed(); dead == 0 {
				t.Error("nothing held back vacuum")
			}
			w.goneNow("horizon-held", said)
			f := w.finds("horizon-held", said, few)
			took := w.took
			for _, statement := range f.Remedy.SQL {
				w.runsOn(standby, statement)
			}
			w.becomes("vacuum may go on", func() bool { return w.vacuumed() == 0 })
			w.goneNow("horizon-held", said, few)
			w.took = took
			w.mended(f, bySQL)
		})
	}
}

// vacuumed runs VACUUM and returns how many dead rows are left.
func (w *ward) vacuumed() int64 {
	w.Helper()
	w.exec("VACUUM outbox")
	return ask[int64](w, fmt.Sprintf("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = '%s.outbox'::regclass",
		w.Schema))
}

func (w *ward) runsOn(server *localpg.Server, statement string) {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), server.URL())
	must(w, err)
	defer conn.Close(w.Context())
	w.says(conn, statement)
}
