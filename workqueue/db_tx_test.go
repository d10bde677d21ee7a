package workqueue_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A write outside a transaction is the bug that this library exists to prevent, so anything that is not a transaction
// does not compile. Each package under testdata/compile passes one such thing.
func TestOnlyTransactionsCompile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ program, refusal string }{
		{"accepted", ""}, // pgx.Tx, *pgxpool.Tx, *sql.Tx, *sqlx.Tx
		{"pgxpool", "does not implement pgx.Tx (missing method Commit)"},
		{"pgxpoolconn", "does not implement pgx.Tx (missing method Commit)"},
		{"pgxconn", "does not implement pgx.Tx (missing method Commit)"},
		{"sqldb", "does not implement workqueue.SQLTx (missing method Commit)"},
		{"sqlconn", "does not implement workqueue.SQLTx (missing method Commit)"},
		{"sqlxdb", "does not implement workqueue.SQLTx (missing method Commit)"},
		{"sqlxconn", "does not implement workqueue.SQLTx (missing method Commit)"},
		{"homemade", "does not implement workqueue.Tx"},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), "go", "build", "./testdata/compile/"+
				c.program).CombinedOutput()
			switch {
			case c.refusal == "" && err != nil:
				t.Errorf("does not compile: %v\n%s", err, out)
			case c.refusal != "" && err == nil:
				t.Error("compiles")
			case c.refusal != "" && !strings.Contains(string(out), c.refusal):
				t.Errorf("got %s\nwant in it: %s", out, c.refusal)
			}
		})
	}
}
