package txworktest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

// A row that does not decode is retried as usual, and then becomes a dead letter with the codec's error. It is not
// lost.
func TestWhatDoesNotDecodeBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	newCodec := func(id string) *aesgcm.Codec {
		c, err := aesgcm.New(aesgcm.Options{Current: aesgcm.Key{ID: id, Secret: make([]byte, 32)}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	table := f.box.Table().Name()
	m := outbox.Message{ID: codec.NewID(), Topic: "a"}
	var err error
	if m.Payload, err = codec.Bind[order](newCodec("old"), table).Encode(t.Context(), m.ID, nil, order{7}); err != nil {
		t.Fatal(err)
	}
	f.enqueue(m)
	relay := func(id string) *outbox.Relay {
		bound := codec.Bind[order](newCodec(id), table)
		return f.relay(func(ctx context.Context, m *outbox.Delivery) error {
			_, err := bound.Decode(ctx, m.ID, m.Headers, m.Payload)
			return err
		})
	}
	wantOutcomes(t, txworktest.DrainAll(t, f.Pool, relay("new")), "retried, retried, failed")
	row := txworktest.RequireStatus(t, f.Pool, f.box, workqueue.Failed, txworktest.Bytes(m.Payload))
	if !strings.Contains(row.LastError, `key "old" is not known here`) {
		t.Error(row.LastError)
	}
	if _, err := f.box.Table().On(f.Pool).Redrive(t.Context(), []uuid.UUID{row.ID}, "operator"); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.DrainAll(t, f.Pool, relay("old")), "done")
}
