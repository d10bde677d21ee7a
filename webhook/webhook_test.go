package webhook_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/webhook"
	"github.com/txwork/txwork/workqueue"
)

// These are the test vectors that the specification of Standard Webhooks publishes.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	s, err := webhook.NewSigner("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := s.Sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)); err != nil {
		t.Fatal(err)
	}
	if got := h.Get(webhook.HeaderSignature); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	s, err := webhook.NewSigner(fuzzSecret)
	if err != nil {
		t.Fatal(err)
	}
	other, err := webhook.NewSigner(otherSecret)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{}`)
	signed := func(by *webhook.Signer, at time.Time, change func(http.Header)) http.Header {
		h := http.Header{}
		if err := by.Sign(h, "id", at, body); err != nil {
			t.Error(err)
		}
		if change != nil {
			change(h)
		}
		return h
	}
	now := time.Now()
	for name, c := range map[string]struct {
		header http.Header
		want   error
	}{
		"nothing": {http.Header{}, webhook.ErrSignature},
		"good":    {signed(s, now, nil), nil},
		"among others": {signed(s, now, func(h http.Header) {
			h.Set(webhook.HeaderSignature, "v1a,x v1, "+
				h.Get(webhook.HeaderSignature))
		}), nil},
		"no scheme": {signed(s, now, func(h http.Header) {
			h.Set(webhook.HeaderSignature, strings.TrimPrefix(h.Get(webhook.HeaderSignature), "v1,"))
		}), webhook.ErrSignature},
		"more behind it": {signed(s, now, func(h http.Header) {
			h.Set(webhook.HeaderSignature, h.Get(webhook.HeaderSignature)+"!")
		}), webhook.ErrSignature},
		"another secret": {signed(other, now, nil), webhook.ErrSignature},
		"another id": {signed(s, now, func(h http.Header) { h.Set(webhook.HeaderID, "other") }),
			webhook.ErrSignature},
		"another time": {signed(s, now, func(h http.Header) { h.Set(webhook.HeaderTimestamp, "1") }),
			webhook.ErrSignature},
		"no time": {signed(s, now, func(h http.Header) { h.Set(webhook.HeaderTimestamp, "soon") }),
			webhook.ErrSignature},
		"old":          {signed(s, now.Add(-6*time.Minute), nil), webhook.ErrStale},
		"ahead":        {signed(s, now.Add(6*time.Minute), nil), webhook.ErrStale},
		"a little old": {signed(s, now.Add(-4*time.Minute), nil), nil},
		"very many": {signed(s, now, func(h http.Header) {
			h.Set(webhook.HeaderSignature, strings.Repeat("v1,x ", 100)+h.Get(webhook.HeaderSignature))
		}), webhook.ErrSignature},
		"two ids": {signed(s, now, func(h http.Header) { h.Add(webhook.HeaderID, "other") }), webhook.ErrSignature},
	} {
		id, err := s.Verify(c.header, body, 0)
		if !errors.Is(err, c.want) || (id == "id") != (err == nil) {
			t.Errorf("%s: %q, %v, want %v", name, id, err, c.want)
		}
	}
	if _, err := webhook.NewSigner(); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("no secret: %v", err)
	}
}

// Full stops separate what is signed. An id with one would let bytes move between the parts: what was signed as the id
// "order", with a body that begins with a time, would pass as the id "order.<time>", and back.
func TestBytesDoNotMoveBetweenTheSignedParts(t *testing.T) {
	t.Parallel()
	s, err := webhook.NewSigner(fuzzSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	stamp := strconv.FormatInt(now.Unix(), 10)
	h := http.Header{}
	if err := s.Sign(h, "order", now, []byte(stamp+".{}")); err != nil {
		t.Fatal(err)
	}
	h.Set(webhook.HeaderID, "order."+stamp)
	if id, err := s.Verify(h, []byte("{}"), 0); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("accepted as %q: %v", id, err)
	}
	if err := s.Sign(h, "order.7", now, nil); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("an id with a full stop: %v", err)
	}
}
