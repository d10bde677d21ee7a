package inboxhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/webhook"
)

func unverified(*http.Request, []byte) (inboxhttp.Verified, error) { return inboxhttp.Verified{}, nil }

// A request that was captured takes effect once, for its own topic, whatever headers it is sent with again.
func TestACapturedRequestTakesEffectOnce(t *testing.T) {
	f := newFixture(t)
	signer, err := webhook.NewSigner("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	must(t, err)
	router, err := inboxhttp.NewRouter(f.Pool, f.box, f.options(func(o *inboxhttp.Options) {
		o.Verify = inboxhttp.StandardWebhooks(signer, inboxhttp.TypeOf)
	}))
	must(t, err)
	for _, topic := range []string{"order.placed", "order.refunded"} {
		router.Handle(topic, func(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", m.ID, m.Topic)
			return err
		})
	}
	url := f.serve(router)
	const body = `{"type": "order.placed"}`
	signed := http.Header{}
	must(t, signer.Sign(signed, "msg_1", time.Now(), []byte(body)))
	send := func(key string, more ...string) int {
		headers := append([]string{}, more...)
		for name := range signed {
			headers = append(headers, name, signed.Get(name))
		}
		return f.post(url, key, body, headers...).status
	}
	for i, key := range []string{"a", "b", "c"} {
		if got := send(key, inboxhttp.TopicHeader, "order.refunded"); got != 200 {
			t.Errorf("delivery %d is answered by %d", i+1, got)
		}
	}
	if got := send("d", webhook.HeaderID, "msg_2"); got != 401 {
		t.Errorf("a second id beside the signed one is answered by %d", got)
	}
	var effects string
	must(t, f.Pool.QueryRow(t.Context(), "SELECT string_agg(id || ' ' || body, ',') FROM effects").Scan(&effects))
	if effects != "msg_1 order.placed" {
		t.Errorf("the effects are %s", effects)
	}
	unnamed := http.Header{}
	must(t, signer.Sign(unnamed, "msg_3", time.Now(), []byte("[]")))
	headers := []string{}
	for name := range unnamed {
		headers = append(headers, name, unnamed.Get(name))
	}
	if got := f.post(url, "", "[]", headers...); got.status != 401 {
		t.Errorf("a body without a type is answered by %+v", got)
	}
}

func TestVerifyHasToReturnAnID(t *testing.T) {
	f := newFixture(t)
	url := f.process(nothing, func(o *inboxhttp.Options) { o.Verify = unverified })
	if got := f.post(url, "a", "body"); got.status != 401 || f.effects() != 0 {
		t.Errorf("got %+v", got)
	}
}

// An inbox that forgets an id while its signature is still valid would let a captured request take effect again.
func TestVerifyNeedsAWindowOfTheSignature(t *testing.T) {
	f := newFixture(t)
	for window, want := range map[time.Duration]bool{2*webhook.DefaultTolerance - time.Second: false,
		2 * webhook.DefaultTolerance: true} {
		box, err := inbox.Open(inbox.Options{Schema: f.Schema, DedupWindow: window, MaxAttempts: 1})
		must(t, err)
		for _, verify := range []bool{true, false} {
			_, err = inboxhttp.Process(f.Pool, box, f.options(func(o *inboxhttp.Options) {
				if verify {
					o.Verify = unverified
				}
			}), func(context.Context, pgx.Tx, *inboxhttp.Message) error { return nil })
			if accepted := err == nil; accepted != (want || !verify) {
				t.Errorf("a window of %v, verified %t: %v", window, verify, err)
			}
		}
	}
}

// The same id with another topic is another message, whether it is processed or stored, and whatever its body may be.
func TestTheStoredHashCoversTheTopic(t *testing.T) {
	f := newFixture(t)
	for _, any := range []bool{false, true} {
		change := func(o *inboxhttp.Options) { o.AnyBody = any }
		store, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{Options: f.options(change)})
		must(t, err)
		for name, url := range map[string]string{"process": f.process(nothing, change), "receive": f.serve(store)} {
			id := fmt.Sprint(name, any)
			for _, c := range []struct {
				topic string
				want  int
			}{{"order.placed", 200}, {"order.placed", 200}, {"order.refunded", 422}, {"", 422}} {
				if got := f.post(url, id, "body", inboxhttp.TopicHeader, c.topic); got.status != c.want {
					t.Errorf("%s, topic %q: got %+v, want %d", id, c.topic, got, c.want)
				}
			}
		}
	}
}

// A key and a message of the same topic and body have the same hash, so that one finds the other.
func TestAKeyRecognizesAMessageByTopicAndBody(t *testing.T) {
	f := newFixture(t)
	for _, topic := range []string{"", "shop", "order.placed"} {
		key := inbox.Key{Consumer: "billing", Source: "shop", MessageID: "id" + topic, Topic: topic, Body: []byte("b")}
		_, err := f.box.Process(t.Context(), f.Pool, key, func(context.Context, pgx.Tx) error { return nil })
		must(t, err)
		h, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{Options: f.options()})
		must(t, err)
		if got := f.post(f.serve(h), key.MessageID, "b", inboxhttp.TopicHeader, topic); got.text != "duplicate" {
			t.Errorf("topic %q: %+v", topic, got)
		}
	}
}

// The topic is the member that is called exactly type, and a text that is one in every language.
func TestTypeOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"type": "order.placed", "TYPE": "order.refunded"}`: "order.placed",
		`{"Type": "order.placed"}`:                           "",
		`{"type": "a\ud800"}`:                                "",
		`{"type": 7}`:                                        "",
		`{"type": ""}`:                                       "",
		`[]`:                                                 "",
		`no JSON`:                                            "",
	} {
		got, err := inboxhttp.TypeOf([]byte(body))
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: got %q, %v, want %q", body, got, err, want)
		}
	}
}
