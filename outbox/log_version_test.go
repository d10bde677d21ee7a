package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// A log of another version is refused by whoever refuses rows of another version, in the same words, before anything of
// it is read.
func TestALogOfAnotherVersion(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	up, err := migrations.SQL(migrations.FileOptions{Schema: f.Schema, Domains: []migrations.Domain{migrations.Reaper}})
	if err != nil {
		t.Fatal(err)
	}
	f.exec(up)
	f.subscribe("s", 1)
	f.enqueue(outbox.Message{Topic: "a"})
	for comment, want := range map[string]string{
		"'txwork outbox_log 0'": "outbox_log has version 0, this library needs 1: run `txwork migrate up",
		"'txwork outbox_log 2'": "outbox_log has version 2, which serves version 2 and later, this library has 1: upgrade the library",
		"'mine'":                `outbox_log carries no version (its comment is "mine", want "txwork outbox_log 1")`,
	} {
		f.exec("COMMENT ON TABLE " + f.table + " IS " + comment)
		refused := func(who string, err error) {
			t.Helper()
			if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of a log with the comment %s: %v, want %q", who, comment, err, want)
			}
		}
		refused("a check", f.box.Table().CheckVersion(t.Context(), f.Pool))
		relay, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{Subscription: "s"})
		if err != nil {
			t.Fatal(err)
		}
		relay.Handle("a", func(context.Context, *outbox.Delivery) error {
			t.Errorf("a message of a log with the comment %s was handled", comment)
			return nil
		})
		refused("a relay", relay.Run(t.Context()))
		_, err = reaper.RunOnce(t.Context(), f.Pool, f.box.Tables(), reaper.Options{Schema: f.Schema})
		refused("a reaper", err)
	}
	f.exec("COMMENT ON TABLE " + f.table + " IS 'txwork outbox_log 2 since 1; it serves this library'")
	if err := f.box.Table().CheckVersion(t.Context(), f.Pool); err != nil {
		t.Errorf("a later log that serves this library: %v", err)
	}
}
