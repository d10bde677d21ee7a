package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// newEncodedCLI uses a database whose sessions have the given defaults.
func newEncodedCLI(t *testing.T, encoding, setting string) *cli {
	t.Helper()
	db := pgtest.NewIn(t, encoding)
	c := openCLI(t, db)
	c.url = db.URL
	if setting != "" {
		_, err := db.Pool.Exec(t.Context(), fmt.Sprintf(
			"DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s', current_database()); END $$", setting))
		must(t, err)
	}
	c.run("migrate", "up").ok()
	return c
}

// The command line works in a database of any encoding, and with any defaults for its sessions: what a command says is
// stored, if need be with escapes, and the counts are what the database took.
func TestEncodingsOfDatabases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, encoding, setting, stored string }{
		{"LATIN1", "LATIN1", "", `\u65e5\u672cé`},
		{"SQL_ASCII", "SQL_ASCII", "", "日本é"},
		{"EUC_JP", "EUC_JP", "", "日本é"},
		{"escapes", "UTF8", "standard_conforming_strings = off", "日本é"},
		{"client encoding", "UTF8", "client_encoding = LATIN1", "日本é"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newEncodedCLI(t, test.encoding, test.setting)
			id := c.enqueue(outbox.Message{Topic: "t", Payload: []byte("日本é")})[0]
			r := c.run("outbox", "relay", "--exec", "echo 日本é >&2; exit 65", "--until-empty").ok()
			r.says("to be repeated: 0, failed for good: 1")
			s := c.state(id)
			if s.status != workqueue.Failed {
				t.Errorf("the message is %s\nstderr: %s", s.status, r.stderr)
			}
			contains(t, "last_error", s.lastErr, test.stored)
			c.run("list", "outbox", "--status", "failed").ok().prints(test.stored)
			doctor := c.doctor()
			contains(t, "doctor", doctor.stdout, "schema "+c.db.Schema)
			if doctor.code == 1 {
				t.Errorf("doctor: %s", doctor.stderr)
			}
		})
	}
}

// The last attempt of a message is a dead letter, whatever its handler returned.
func TestWorkerCountsWhatTheDatabaseTook(t *testing.T) {
	c := newMigratedCLI(t)
	soon := workqueue.Retry{Growth: workqueue.Constant, Base: time.Millisecond, Cap: time.Millisecond}
	c.enqueue(outbox.Message{Topic: "t", MaxAttempts: 2, Retry: soon})
	r := c.workUntil(`outbox: {topics: {t: {exec: "exit 1"}}}`, "SELECT bool_and(status = 3) FROM {schema}.outbox").ok()
	r.says(`"done":0,"retried":1,"failed":1`)
}
