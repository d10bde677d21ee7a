package alarms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/webhook"
	"github.com/txwork/txwork/workqueue/validate"
)

// DefaultWakeTimeout is how long one delivery over HTTP may take, from dialling to the end of the answer.
const DefaultWakeTimeout = httppost.DefaultTimeout

// idleWakeConns is how many idle connections to the receiver are kept open.
const idleWakeConns = DefaultConcurrency

// HTTPWakerOptions configure an [HTTPWaker]. URL is required.
type HTTPWakerOptions struct {
	// URL receives every wake as a POST: http or https, without user and password.
	URL string

	// Secrets sign the wakes according to Standard Webhooks. Each is "whsec_" followed by base64. Every wake is signed
	// with all of them, so a secret can be replaced without interruption: add the new one before you remove the old
	// one. Default: wakes are not signed.
	Secrets []string

	// Token is sent as "Authorization: Bearer". Default: none.
	Token string

	// Timeout bounds one delivery. Default: [DefaultWakeTimeout].
	Timeout time.Duration

	// AllowPrivate permits wakes to addresses that are not public: loopback, private and link-local ones and those of
	// other special uses. By default such addresses are refused at the moment of dialling, so a name that is resolved
	// to another address later cannot circumvent the check.
	AllowPrivate bool
}

// An HTTPWaker posts wakes as JSON. Any status but 2xx is a failed delivery, whose error contains the status and the
// beginning of the answer. Redirects are not followed, and proxies from the environment are not used. According to
// Standard Webhooks, a 410 ends the alarm, and a Retry-After postpones the next delivery, by a day at most. An
// HTTPWaker writes no log. It is safe for concurrent use.
type HTTPWaker struct {
	url    string
	token  string
	signer *webhook.Signer // nil: not signed
	client *httppost.Client
}

// NewHTTPWaker validates the options. It does not resolve or dial.
func NewHTTPWaker(o HTTPWakerOptions) (*HTTPWaker, error) {
	if err := httppost.CheckURL("wake url", "alarms.HTTPWakerOptions.URL", o.URL); err != nil {
		return nil, err
	}
	if strings.ContainsAny(o.Token, "\r\n\x00") {
		return nil, validate.Errorf("token", "has a line break or a NUL")
	}
	client, err := httppost.NewClient(httppost.ClientOptions{
		Timeout: o.Timeout, PublicOnly: !o.AllowPrivate, NoProxy: true, IdleConns: idleWakeConns,
	})
	if err != nil {
		return nil, err
	}
	w := &HTTPWaker{url: o.URL, token: o.Token, client: client}
	if len(o.Secrets) == 0 {
		return w, nil
	}
	signer, err := webhook.NewSigner(o.Secrets...)
	if err != nil {
		return nil, err
	}
	w.signer = signer
	return w, nil
}

// Close closes idle connections.
func (w *HTTPWaker) Close() { w.client.Close() }

// Wake implements [Waker].
func (w *HTTPWaker) Wake(ctx context.Context, wake Wake) error {
	body, err := encode(wake)
	if err != nil {
		return fmt.Errorf("encoding the wake: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return hidingTarget(httppost.WithoutURL(err))
	}
	if err := w.authorize(request.Header, wake.ID(), body); err != nil {
		return err
	}
	answer, err := w.client.Do(ctx, request)
	if err != nil {
		return explainWake(err)
	}
	return answer.Outcome(verdict(answer.Status), 0)
}

func (w *HTTPWaker) authorize(h http.Header, id string, body []byte) error {
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "txwork-alarms")
	if w.token != "" {
		h.Set("Authorization", "Bearer "+w.token)
	}
	if w.signer == nil {
		return nil
	}
	return w.signer.Sign(h, id, time.Now(), body)
}

// verdict interprets a status according to Standard Webhooks: 410 says that the receiver wants no more wakes. Any other
// refusal is retried, because it may be a mistake of the receiver, and the alarm's owner cannot send the wake again.
func verdict(status int) httppost.Verdict {
	switch {
	case status == http.StatusGone:
		return httppost.Permanent
	case status/100 == 2:
		return httppost.Done
	}
	return httppost.Retry
}

// explainWake hides from the alarm's owner what a failed request reveals about the receiver. Other errors, such as an
// exceeded limit, reveal nothing and stay unchanged.
func explainWake(err error) error {
	if failed, ok := errors.AsType[*httppost.TransportError](err); ok {
		return hidingTarget(failed.Err)
	}
	return err
}
