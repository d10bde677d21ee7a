package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/webhook"
)

const (
	fuzzSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

func newFuzzSigner(f *testing.F, secret string) *webhook.Signer {
	s, err := webhook.NewSigner(secret)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// Verify refuses arbitrary headers: without the secret, no headers can be made that pass.
func FuzzVerify(f *testing.F) {
	signer, stranger := newFuzzSigner(f, fuzzSecret), newFuzzSigner(f, otherSecret)
	now := time.Now()
	foreign := http.Header{}
	if err := stranger.Sign(foreign, "msg_1", now, []byte("{}")); err != nil {
		f.Fatal(err)
	}
	f.Add("msg_1", foreign.Get(webhook.HeaderTimestamp), foreign.Get(webhook.HeaderSignature), []byte("{}"))
	f.Add("msg_1", "1", "v1,", []byte("{}"))
	f.Add("", "", "", []byte{})
	f.Add("msg_1", "-9223372036854775808", "v1,AAAA v1,BBBB", []byte("{}"))
	f.Add("msg_1", "99999999999999999999", "v1a,AAAA", []byte("{}"))
	f.Add("a.1", "1", strings.Repeat("v1,AAAA ", 30), []byte("{}"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		h := http.Header{}
		h.Set(webhook.HeaderID, id)
		h.Set(webhook.HeaderTimestamp, timestamp)
		h.Set(webhook.HeaderSignature, signature)
		if _, err := signer.Verify(h, body, time.Hour); err == nil {
			t.Fatalf("%q, %q, %q pass", id, timestamp, signature)
		}
	})
}

// A signed message passes, and does not pass with another id, time or body, even if bytes move from one part to
// another.
func FuzzSign(f *testing.F) {
	signer := newFuzzSigner(f, fuzzSecret)
	f.Add("msg_1", []byte("{}"), "msg_2", []byte("{ }"), int16(0))
	f.Add("a.1", []byte(".1.b"), "a", []byte("1.1.b"), int16(-60))
	f.Fuzz(func(t *testing.T, id string, body []byte, otherID string, otherBody []byte, offset int16) {
		now := time.Now().Add(time.Duration(offset%60) * time.Second)
		h := http.Header{}
		if err := signer.Sign(h, id, now, body); err != nil {
			if id != "" && !strings.ContainsAny(id, ".\r\n\x00") {
				t.Fatalf("id %q: %v", id, err)
			}
			return
		}
		if got, err := signer.Verify(h, body, time.Hour); err != nil || got != id {
			t.Fatalf("id %q: %q, %v", id, got, err)
		}
		if _, err := signer.Verify(h, otherBody, time.Hour); err == nil && string(otherBody) != string(body) {
			t.Fatalf("the signature of %q passes for %q", body, otherBody)
		}
		h.Set(webhook.HeaderID, otherID)
		if _, err := signer.Verify(h, otherBody, time.Hour); err == nil && otherID != id {
			t.Fatalf("the signature of %q passes for %q", id, otherID)
		}
	})
}
