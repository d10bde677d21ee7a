package inbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/workqueue"
)

// refusedNames are invalid values for a part of the key, with what the error must contain.
var refusedNames = map[string]string{
	"":                       "%s has 0 bytes, it must have 1 to 255 bytes",
	strings.Repeat("c", 256): "%s has 256 bytes, it must have ",
	strings.Repeat("ö", 128): "%s has 256 bytes, it must have ",
	"a\x00b":                 "%s has a NUL byte at offset 1",
	"a\xff":                  "%s is not valid UTF-8",
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) { o.MaxPayload = 1024 })
	tx, end := apptx.Pgx(f, f.DB)
	refuse := func(k inbox.Key, want string) {
		t.Helper()
		_, err := f.box.Process(t.Context(), f.Pool, k, effect("1"))
		expectInvalid(t, err, want)
		_, err = f.box.Begin(t.Context(), tx, k)
		expectInvalid(t, err, want)
	}
	for bad, want := range refusedNames {
		refuse(inbox.Key{Consumer: bad, Source: "s", MessageID: "1"}, fmt.Sprintf(want, "consumer"))
		refuse(inbox.Key{Consumer: "c", Source: bad, MessageID: "1"}, fmt.Sprintf(want, "source"))
		refuse(inbox.Key{Consumer: "c", Source: "s", MessageID: bad}, fmt.Sprintf(want, "message_id"))
	}
	k := key("1")
	k.BodyHash = []byte("short")
	refuse(k, "body_hash has 5 bytes, it must have 32 bytes")
	k = key("1")
	k.Body = make([]byte, 1025)
	if got := f.process(k); got.Answer != inbox.Processed {
		t.Errorf("a body that is not kept may have any size: %+v", got)
	}
	k.KeepBody = true
	refuse(k, "payload has 1025 bytes, it must have at most 1024 bytes")
	f.expectBegin(tx, key("2"), inbox.Processed) // the transaction is unchanged
	end(true)
}

func expectInvalid(t *testing.T, err error, want string) {
	t.Helper()
	var invalid *workqueue.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an InvalidError that says %q", err, want)
	}
}

func TestMissingArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	_, err := f.box.Process(t.Context(), nil, key("1"), effect("1"))
	expectInvalid(t, err, "pool is nil")
	_, err = f.box.Process(t.Context(), f.Pool, key("1"), nil)
	expectInvalid(t, err, "function is nil")
	for _, tx := range []workqueue.Tx{nil, workqueue.Pgx(nil), workqueue.SQL(nil)} {
		_, err = f.box.Begin(t.Context(), tx, key("1"))
		expectInvalid(t, err, "transaction is nil")
		_, err = f.box.Receive(t.Context(), tx, message("1", ""))
		expectInvalid(t, err, "transaction is nil")
	}
	_, err = f.box.Purge(t.Context(), nil)
	expectInvalid(t, err, "pool is nil")
}

func refusedMessages() map[string]inbox.Message {
	all := map[string]inbox.Message{}
	add := func(want string, change func(*inbox.Message)) {
		m := message("1", "")
		change(&m)
		all[want] = m
	}
	for bad, want := range refusedNames {
		add(fmt.Sprintf(want, "consumer"), func(m *inbox.Message) { m.Consumer = bad })
		add(fmt.Sprintf(want, "source"), func(m *inbox.Message) { m.Source = bad })
		add(fmt.Sprintf(want, "message_id"), func(m *inbox.Message) { m.MessageID = bad })
		if bad != "" {
			add(fmt.Sprintf(want, "topic"), func(m *inbox.Message) { m.Topic = bad })
		}
	}
	add("body_hash has 33 bytes, it must have 32 bytes", func(m *inbox.Message) { m.BodyHash = make([]byte, 33) })
	add("payload has 1048577 bytes, it must have at most 1048576 bytes", func(m *inbox.Message) { m.Payload = make([]byte, 1<<20+1) })
	add("headers has 65537 bytes, the limit is 65536",
		func(m *inbox.Message) { m.Headers = map[string]string{"h": strings.Repeat("v", 64<<10)} })
	add("header h is not valid UTF-8", func(m *inbox.Message) { m.Headers = map[string]string{"h": "\xff"} })
	add("due time is", func(m *inbox.Message) { m.ScheduledAt = time.Unix(1_700_000_000_000, 0) })
	add("max attempts is -1", func(m *inbox.Message) { m.MaxAttempts = -1 })
	return all
}

func TestBadMessagesAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	tx, end := apptx.SQL(f, f.DB)
	for want, bad := range refusedMessages() {
		_, err := f.box.Receive(t.Context(), tx, bad)
		expectInvalid(t, err, want)
		_, err = f.box.ReceiveMany(t.Context(), tx, message("good", ""), bad)
		expectInvalid(t, err, "txwork: message 2 of 2: "+want)
		var m *workqueue.ItemError
		if !errors.As(err, &m) || m.Index != 1 || m.Count != 2 {
			t.Errorf("%s: got %+v, want the second message", want, m)
		}
	}
	got, err := f.box.Receive(t.Context(), tx, message("good", ""))
	if err != nil || got.Answer != inbox.Stored {
		t.Errorf("the transaction is not as it was: %+v, %v", got, err)
	}
	end(true)
	if n := f.rows(); n != 1 {
		t.Errorf("%d rows, want the good one", n)
	}
}

// Programs in other languages write to the table, too.
func TestTheTableRefusesBadKeys(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for _, values := range []string{"'', 's', 'm', NULL", "'c', '', 'm', NULL", "'c', 's', '', NULL",
		"'c', 's', repeat('m', 256), NULL", `'c', 's', 'm', '\x01'`} {
		if _, err := f.Pool.Exec(t.Context(), "INSERT INTO "+f.table+
			" (consumer, source, message_id, body_hash) VALUES ("+values+")"); err == nil {
			t.Errorf("took %s", values)
		}
	}
}
