package outbox_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// refused are invalid messages, with what the error must contain.
var refused = map[string]struct {
	msg  outbox.Message
	want string
}{
	"no topic":        {outbox.Message{}, "topic has 0 bytes, it must have 1 to 255 bytes"},
	"long topic":      {outbox.Message{Topic: strings.Repeat("t", 256)}, "topic has 256 bytes, it must have 1 to 255 bytes"},
	"NUL in topic":    {outbox.Message{Topic: "a\x00b"}, "topic has a NUL byte at offset 1"},
	"topic not UTF-8": {outbox.Message{Topic: "a\xff"}, "topic is not valid UTF-8"},
	"long key": {outbox.Message{Topic: "a", Key: strings.Repeat("ö", 128)},
		"key has 256 bytes, it must have at most 255 bytes"},
	"NUL in key": {outbox.Message{Topic: "a", Key: "\x00"}, "key has a NUL byte at offset 0"},
	"long dedup key": {outbox.Message{Topic: "a", DedupKey: strings.Repeat("d", 256)},
		"dedup_key has 256 bytes, it must have at most 255 bytes"},
	"dedup key not UTF-8": {outbox.Message{Topic: "a", DedupKey: "\xc3"}, "dedup_key is not valid UTF-8"},
	"large payload": {outbox.Message{Topic: "a", Payload: make([]byte, 1025)},
		"payload has 1025 bytes, it must have at most 1024 bytes"},
	"large headers": {outbox.Message{Topic: "a", Headers: map[string]string{"h": strings.Repeat("v", 64<<10)}},
		"headers has 65537 bytes, the limit is 65536"},
	"NUL in header name": {outbox.Message{Topic: "a", Headers: map[string]string{"\x00": ""}},
		"header name has a NUL byte at offset 0"},
	"header not UTF-8": {outbox.Message{Topic: "a", Headers: map[string]string{"h": "\xff"}},
		"header h is not valid UTF-8"},
	"time before 1970": {outbox.Message{Topic: "a", ScheduledAt: time.Unix(-1, 0)}, "due time is"},
	"time after 9999": {outbox.Message{Topic: "a", ScheduledAt: time.Unix(1_700_000_000_000, 0)},
		"it must be between 1970-01-01 and 9999-12-31"},
	"negative max attempts": {outbox.Message{Topic: "a", MaxAttempts: -1}, "max attempts is -1"},
	"absurd max attempts":   {outbox.Message{Topic: "a", MaxAttempts: 1_000_001}, "max attempts is 1000001"},
}

// The outbox repeats the checks of the core before it sends the first of several statements. Otherwise, an invalid
// message in a later statement would be refused after others were written.
func TestBadMessagesAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	sent := 0
	f := newOutbox(t, statements(&sent), func(o *outbox.Options) { o.MaxPayload = 1024 })
	tx, end := apptx.Pgx(f, f.DB)
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := f.box.Enqueue(t.Context(), tx, c.msg)
			expectRefusal(t, err, 0, 1, c.want)

			// The invalid message is the last one, in another statement than the first.
			msgs := append(numbered(workqueue.MaxBatch), c.msg)
			_, err = f.box.EnqueueMany(t.Context(), tx, msgs...)
			expectRefusal(t, err, workqueue.MaxBatch, len(msgs), fmt.Sprintf("txwork: message %d of %d: ", len(msgs),
				len(msgs)))
			expectRefusal(t, err, workqueue.MaxBatch, len(msgs), c.want)
		})
	}
	if sent != 0 {
		t.Errorf("%d statements were sent", sent)
	}
	if _, err := f.box.Enqueue(t.Context(), tx, outbox.Message{Topic: "good"}); err != nil {
		t.Errorf("the transaction is not as it was: %v", err)
	}
	end(true)
	if n := f.messages(); n != 1 {
		t.Errorf("the table has %d messages, want the good one", n)
	}
}

func expectRefusal(t *testing.T, err error, index, count int, text string) {
	t.Helper()
	var m *workqueue.ItemError
	var invalid *workqueue.InvalidError
	switch {
	case !errors.As(err, &m), !errors.As(err, &invalid), !errors.Is(err, workqueue.ErrInvalid):
		t.Fatalf("got %v, want an ItemError of an InvalidError", err)
	case m.Index != index, m.Count != count:
		t.Errorf("names message %d of %d, want %d of %d", m.Index, m.Count, index, count)
	case !strings.Contains(err.Error(), text):
		t.Errorf("says %q, want %q", err, text)
	}
}

func TestAnIDTwiceInACallIsRefused(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	tx, end := apptx.Pgx(f, f.DB)
	m := outbox.Message{ID: uuid.New(), Topic: "a"}
	_, err := f.box.EnqueueMany(t.Context(), tx, m, outbox.Message{Topic: "a"}, m)
	expectRefusal(t, err, 2, 3, "is that of message 1, too")
	end(true)
}

func TestMissingTransactionIsRefused(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	for name, tx := range map[string]workqueue.Tx{"nil": nil, "nil pgx.Tx": workqueue.Pgx(nil),
		"nil SQLTx": workqueue.SQL(nil)} {
		if _, err := f.box.Enqueue(t.Context(), tx, outbox.Message{Topic: "a"}); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func TestOpenRefusesBadOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options outbox.Options
		want    string
	}{
		"negative payload":   {outbox.Options{MaxPayload: -1}, "max payload is -1 bytes"},
		"huge payload":       {outbox.Options{MaxPayload: 256<<20 + 1}, "between 1 and 268435456"},
		"schema":             {outbox.Options{Schema: "Robert'); --"}, "schema"},
		"negative attempts":  {outbox.Options{MaxAttempts: -1}, "max attempts is -1"},
		"backoff":            {outbox.Options{Retry: workqueue.Retry{Growth: 9}}, "retry has Growth 9"},
		"negative retention": {outbox.Options{Retention: -1}, "retention"},
	} {
		if _, err := outbox.Open(c.options); !errors.Is(err, workqueue.ErrInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestDefaultsAreThoseOfTheMigration(t *testing.T) {
	t.Parallel()
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := workqueue.Open(outbox.Spec(""), workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	got, _, _ := box.Table().Spec().DDL()
	want, _, _ := table.Spec().DDL()
	if got != want {
		t.Error("an outbox without options has other DDL than its Spec")
	}
	if o, s := box.Table().Spec(), table.Spec(); o.Retention != s.Retention || o.DeleteDone != s.DeleteDone ||
		!reflect.DeepEqual(o.Columns, s.Columns) {
		t.Errorf("an outbox without options is %+v, its Spec %+v", o, s)
	}
}
