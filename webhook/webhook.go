// Package webhook signs and verifies HTTP requests according to the Standard Webhooks specification. The signature
// covers the id of a message, the time and the body, and nothing else of a request: not its path, and no other header.
//
//	signer, err := webhook.NewSigner(secret)
//	if err != nil {
//		return err
//	}
//	id, err := signer.Verify(r.Header, body, 0) // body as it was received
//
// Use one secret for each endpoint. Otherwise a request to one of them, if it is captured, can be sent to another.
package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue/validate"
)

// Headers of a signed request.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// DefaultTolerance is how far the time of a request may be from the receiver's clock: clocks differ, and the transfer
// takes time.
const DefaultTolerance = 5 * time.Minute

// Errors of [Signer.Verify].
var (
	ErrSignature = errors.New("the signature is missing or wrong")
	ErrStale     = errors.New("the time of the signature is too far from now")
)

const (
	secretPrefix    = "whsec_"
	signatureScheme = "v1,"
	minSecret       = 24 // in bytes, according to the specification
	maxSecret       = 64
)

// A Signer signs and verifies with a set of secrets. It is safe for concurrent use.
type Signer struct{ secrets [][]byte }

// NewSigner takes at least one secret. A secret is "whsec_" followed by the base64 encoding of 24 to 64 bytes.
func NewSigner(secrets ...string) (*Signer, error) {
	if len(secrets) == 0 {
		return nil, validate.Errorf("secret", "is missing")
	}
	s := &Signer{}
	for _, text := range secrets {
		secret, err := parseSecret(text)
		if err != nil {
			return nil, err
		}
		s.secrets = append(s.secrets, secret)
	}
	return s, nil
}

// parseSecret never quotes the secret in its error.
func parseSecret(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, secretPrefix)
	if !found {
		return nil, validate.Errorf("secret", "does not begin with %q", secretPrefix)
	}
	secret, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil:
		return nil, validate.Errorf("secret", "is not base64 after %q", secretPrefix)
	case len(secret) < minSecret || len(secret) > maxSecret:
		return nil, validate.Errorf("secret", "has %d bytes, it must have %d to %d", len(secret), minSecret, maxSecret)
	}
	return secret, nil
}

// Sign sets the three headers of a message. It refuses an id that Verify would refuse.
func (s *Signer) Sign(h http.Header, id string, at time.Time, body []byte) error {
	if !isID(id) {
		return validate.Errorf("id", "%.40q is empty or has a full stop or a line break", id)
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(s.secrets))
	for i, secret := range s.secrets {
		signatures[i] = signatureScheme + base64.StdEncoding.EncodeToString(sign(secret, id, timestamp, body))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return nil
}

// isID reports whether an id can be signed without ambiguity. Full stops separate the signed parts: with one in the id,
// bytes of the id could be moved to the time and the body, or back, under the same signature.
func isID(id string) bool { return id != "" && !strings.ContainsAny(id, ".\r\n\x00") }

func sign(secret []byte, id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{id, ".", timestamp, "."} {
		mac.Write([]byte(part))
	}
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify verifies a received message and returns its id. Pass the body unchanged. One of its signatures must be by one
// of the secrets, and its time must be within the tolerance of this machine's clock; 0 means [DefaultTolerance]. The
// error is [ErrSignature] or [ErrStale]. A valid message may still arrive twice: remember its id for at least twice the
// tolerance, since the sender's clock may be ahead. Package inboxhttp does.
func (s *Signer) Verify(h http.Header, body []byte, tolerance time.Duration) (id string, err error) {
	id, timestamp := only(h, HeaderID), only(h, HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if !isID(id) || err != nil || !s.matches(only(h, HeaderSignature), id, timestamp, body) {
		return "", ErrSignature
	}
	tolerance = cmp.Or(tolerance, DefaultTolerance)
	if time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return "", ErrStale
	}
	return id, nil
}

// only returns the value of a header, or nothing if there are several: other code might use another one of them.
func only(h http.Header, name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// maxSignatures limits the work that a header can cause.
const maxSignatures = 20

// matches compares every signature with that of every secret, so that its duration reveals nothing.
func (s *Signer) matches(header, id, timestamp string, body []byte) bool {
	given := strings.Fields(header)
	if len(given) > maxSignatures {
		return false
	}
	match := 0
	for _, secret := range s.secrets {
		want := sign(secret, id, timestamp, body)
		for _, text := range given {
			encoded, known := strings.CutPrefix(text, signatureScheme)
			got, err := base64.StdEncoding.Strict().DecodeString(encoded)
			if known && err == nil { // text after the prefix that is not base64 is no signature
				match |= subtle.ConstantTimeCompare(want, got)
			}
		}
	}
	return match == 1
}
