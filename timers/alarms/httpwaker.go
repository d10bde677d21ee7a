package alarms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue"
)

const (
	// DefaultWakeTimeout is how long one delivery over HTTP may take, from dialling to the end of the answer.
	DefaultWakeTimeout = 10 * time.Second

	// maxExcerpt is how much of a refusal's body becomes part of the error, in bytes.
	maxExcerpt = 300

	// maxDrain is how much of an answer is read so that its connection can be used again.
	maxDrain = 64 << 10

	// maxAnswerHeader bounds the header of an answer.
	maxAnswerHeader = 64 << 10

	// idleWakeConns are kept open to the one receiver there is.
	idleWakeConns = DefaultConcurrency
)

// HTTPWakerOptions configure an [HTTPWaker]. URL has to be set.
type HTTPWakerOptions struct {
	// URL receives every wake as a POST: http or https, without user and password.
	URL string

	// Secrets sign the wakes by Standard Webhooks, each as "whsec_" and base64. All of them sign, so that a
	// secret can be replaced without a gap: add the new one first. Default: wakes are not signed.
	Secrets []string

	// Token is sent as "Authorization: Bearer". Default: none.
	Token string

	// Timeout bounds one delivery. Default: [DefaultWakeTimeout].
	Timeout time.Duration

	// AllowPrivate lets wakes go to addresses that are not public: loopback, private and link-local ones and
	// those of other special uses. Default: they are refused when they are dialled, whatever the name was
	// resolved to before.
	AllowPrivate bool
}

// An HTTPWaker posts wakes as JSON. Any status but 2xx is a failed delivery, with the status and the beginning of
// the answer in its error; redirects are not followed, and proxies of the environment are not used. As Standard
// Webhooks says, a 410 ends the alarm, and a Retry-After puts the next delivery off, by a day at most. It writes no log.
// It is safe for concurrent use.
type HTTPWaker struct {
	url     string
	token   string
	timeout time.Duration
	signer  *Signer // nil: not signed
	client  *http.Client
}

// NewHTTPWaker validates the options. It does not resolve or dial.
func NewHTTPWaker(o HTTPWakerOptions) (*HTTPWaker, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	if o.Timeout < 0 {
		return nil, workqueue.Invalid("timeout", "is %v, it cannot be negative", o.Timeout)
	}
	if strings.ContainsAny(o.Token, "\r\n\x00") {
		return nil, workqueue.Invalid("token", "has a line break or a NUL")
	}
	setDefault(&o.Timeout, DefaultWakeTimeout)
	w := &HTTPWaker{url: o.URL, token: o.Token, timeout: o.Timeout, client: newWakeClient(o)}
	if len(o.Secrets) == 0 {
		return w, nil
	}
	signer, err := NewSigner(o.Secrets...)
	if err != nil {
		return nil, err
	}
	w.signer = signer
	return w, nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return workqueue.Invalid("wake url", "is missing")
	case err != nil:
		return workqueue.Invalid("wake url", "cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return workqueue.Invalid("wake url", "has scheme %q, it must be http or https", clip(u.Scheme))
	case u.Hostname() == "":
		return workqueue.Invalid("wake url", "has no host")
	case u.User != nil:
		return workqueue.Invalid("wake url", "has a user or password: use a token or a secret")
	}
	return nil
}

func newWakeClient(o HTTPWakerOptions) *http.Client {
	dialer := &net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second}
	if !o.AllowPrivate {
		dialer.ControlContext = refusePrivate
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // it would be dialled in the receiver's place, and dial whatever it is told
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    idleWakeConns,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    o.Timeout,
			MaxResponseHeaderBytes: maxAnswerHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes connections that are idle.
func (w *HTTPWaker) Close() { w.client.CloseIdleConnections() }

// Wake implements [Waker].
func (w *HTTPWaker) Wake(ctx context.Context, wake Wake) error {
	body, err := encode(wake)
	if err != nil {
		return fmt.Errorf("encoding the wake: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("no answer within %v", w.timeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return hidingTarget(withoutURL(err))
	}
	w.authorize(request.Header, wake.ID(), body)
	answer, err := w.client.Do(request)
	if err != nil {
		return explainWake(ctx, err)
	}
	defer answer.Body.Close()
	return judge(answer)
}

func (w *HTTPWaker) authorize(h http.Header, id string, body []byte) {
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "txwork-alarms")
	if w.token != "" {
		h.Set("Authorization", "Bearer "+w.token)
	}
	if w.signer != nil {
		w.signer.Sign(h, id, time.Now(), body)
	}
}

// judge reads what there is to read of an answer.
func judge(answer *http.Response) error {
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		io.CopyN(io.Discard, answer.Body, maxDrain)
		return nil
	}
	return verdict(answer, refusal(answer))
}

// maxRetryAfter bounds how long a receiver may put a delivery off: as long as the longest pause that Standard Webhooks
// recommends.
const maxRetryAfter = 24 * time.Hour

// verdict is what Standard Webhooks makes of a status: 410 says that the receiver wants no more, and Retry-After is
// taken into consideration on any failure, such as 429 and 503.
func verdict(answer *http.Response, err error) error {
	if answer.StatusCode == http.StatusGone {
		return workqueue.Permanent(err)
	}
	if d := retryAfter(answer.Header.Get("Retry-After"), time.Now()); d > 0 {
		return workqueue.RetryAfter(min(d, maxRetryAfter), err)
	}
	return err
}

// retryAfter reads seconds, of which no number is too large, or a date; 0 for anything else.
func retryAfter(text string, now time.Time) time.Duration {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds > int(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return at.Sub(now)
}

// refusal is the status and the beginning of the answer.
func refusal(answer *http.Response) error {
	excerpt, _ := io.ReadAll(io.LimitReader(answer.Body, maxExcerpt))
	text := strings.TrimSpace(strings.ToValidUTF8(string(excerpt), ""))
	status := fmt.Sprintf("the receiver answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)) // its own phrase may be long
	if text == "" {
		return errors.New(strings.TrimSpace(status))
	}
	return fmt.Errorf("%s: %s", strings.TrimSpace(status), text)
}

// explainWake says which limit was passed, where one was.
func explainWake(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return hidingTarget(withoutURL(err))
}

// withoutURL leaves out the URL, which may hold a secret, and which the alarm's owner has no need to see.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
