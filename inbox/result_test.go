package inbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A sender stops after a 2xx, repeats after a 5xx, and gives up after a 4xx. Only messages that may still fail must be
// repeated.
func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	for answer, want := range map[inbox.Answer]int{
		inbox.Processed: 200, inbox.Stored: 200, inbox.Duplicate: 200,
		inbox.InProgress: 503, inbox.HashMismatch: 422, inbox.Result{}.Answer: 500,
	} {
		if got := inbox.HTTPStatus(inbox.Result{Answer: answer}, nil); got != want {
			t.Errorf("%v: %d, want %d", answer, got, want)
		}
	}
}

// A message that can never be accepted must not be sent again and again until it is a dead letter. After any other
// error, it must be sent again.
func TestHTTPStatusOfErrors(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	for name, x := range map[string]struct {
		key  inbox.Key
		want int
	}{
		"processed":         {inbox.Key{Consumer: "c", Source: "s", MessageID: "1"}, 200},
		"without an id":     {inbox.Key{Consumer: "c", Source: "s"}, 400},
		"without a source":  {inbox.Key{Consumer: "c", MessageID: "1"}, 400},
		"our own mistake":   {inbox.Key{Source: "s", MessageID: "1"}, 500},
		"an id with a NUL":  {inbox.Key{Consumer: "c", Source: "s", MessageID: "a\x00"}, 400},
		"a hash of 5 bytes": {inbox.Key{Consumer: "c", Source: "s", MessageID: "2", BodyHash: []byte("short")}, 400},
	} {
		if got := inbox.HTTPStatus(f.box.Process(t.Context(), f.Pool, x.key, effect("1"))); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
	if got := inbox.HTTPStatus(inbox.Result{}, validate.Errorf("payload", "of a handler's own")); got != 500 {
		t.Errorf("an invalid value of the handler's: %d", got)
	}
	handler := func(context.Context, pgx.Tx) error {
		return &workqueue.ItemError{Item: "message", Count: 2, Err: validate.Errorf("topic", "is empty")}
	}
	key := inbox.Key{Consumer: "c", Source: "s", MessageID: "3"}
	if got := inbox.HTTPStatus(f.box.Process(t.Context(), f.Pool, key, handler)); got != 500 {
		t.Errorf("messages of the handler's own that were refused: %d", got)
	}
	tx, end := apptx.Pgx(f, f.DB)
	defer end(false)
	if _, err := f.box.Receive(t.Context(), tx, inbox.Message{Consumer: "c",
		Source: "s"}); inbox.HTTPStatus(inbox.Result{}, err) != 400 {
		t.Errorf("a stored message without an id: %v", err)
	}
	if got := inbox.HTTPStatus(inbox.Result{}, errors.New("the database is away")); got != 500 {
		t.Errorf("got %d", got)
	}
}
