package main

import (
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A row in progress is explained by the process that its token names, for as long as that says that it runs.
func TestARowInProgressNamesItsProcess(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "t"})[0].String()
	token := workqueue.NewOwnerToken()
	_, err := c.queue().Claim(t.Context(), token, time.Minute, 1)
	must(t, err)
	unknown := func() {
		t.Helper()
		c.run("show", "outbox", id).ok().prints("process        - (its process does not say that it runs)")
		if f := decode[topFrame](c.top("--json").ok()); len(f.Leases) != 1 || f.Leases[0].Process != nil ||
			len(f.Skipped) > 0 {
			t.Errorf("the leases are %+v, skipped are %+v", f.Leases, f.Skipped)
		}
	}
	unknown()
	process := survey.ProcessOf(token.String())
	c.exec("CALL {schema}.process_beat(x'" + process + "'::bigint, 'web-1/7', 'python 3.13', '1.2', " +
		`'[{"table": "outbox", "concurrency": 5}]')`)
	c.run("show", "outbox", id).ok().prints("process        web-1/7, python 3.13, version 1.2, which said so ",
		`ago, and that it serves {"table": "outbox", "concurrency": 5}`)
	shown := decode[struct{ Process map[string]any }](c.run("show", "outbox", id, "--json").ok()).Process
	if shown["id"] != process || shown["host"] != "web-1/7" || shown["serves"] == nil {
		t.Errorf("the process is %v", shown)
	}
	c.top("--once", "--width", "80").ok().prints("PROCESS", "web-1/7 (python 3.13)")
	c.top("--once", "--width", "200").ok().prints("OWNER TOKEN", token.String())
	c.exec("UPDATE {schema}.process SET beat_at = now() - interval '91 seconds'")
	unknown()
	c.exec("DROP TABLE {schema}.process")
	unknown()
	c.exec("UPDATE {schema}.outbox SET status = 0, locked_until = NULL")
	if out := c.run("show", "outbox", id).ok().stdout; strings.Contains(out, "\nprocess") {
		t.Errorf("a row that is ready is run by somebody:\n%s", out)
	}
}
