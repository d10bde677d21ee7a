package outboxhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/outbox"
)

// A Verdict is the outcome of a delivery that was answered with some status, see [Options].Statuses, or not at all:
// [Done], [Retry], [Permanent] or [Unavailable]. It is a uint8 whose zero value is no verdict.
type Verdict = httppost.Verdict

// The verdicts.
const (
	Done        = httppost.Done        // 1: the message is delivered
	Retry       = httppost.Retry       // 2: the attempt has failed, and the message is retried
	Permanent   = httppost.Permanent   // 3: the message is a dead letter
	Unavailable = httppost.Unavailable // 4: no attempt has failed, and the topic rests, see [workqueue.Unavailable]
)

// Defaults of [Options].
const (
	// DefaultTimeout is 10 seconds.
	DefaultTimeout = httppost.DefaultTimeout
	// DefaultKeyHeader is "Idempotency-Key".
	DefaultKeyHeader = httppost.DefaultKeyHeader
	// DefaultContentType is "application/json".
	DefaultContentType = httppost.DefaultContentType
)

// MaxRetryAfter is 24 hours. It bounds how long a receiver can postpone the next attempt.
const MaxRetryAfter = httppost.MaxRetryAfter

// Options configure a [Poster]. URL is required.
type Options struct {
	// URL receives the messages: http or https, without user and password.
	URL string

	// Header is sent with every request, such as Authorization.
	Header http.Header

	// ContentType is the Content-Type of payloads, whatever they contain: it is not detected. A message's header
	// content-type overrides it. Default: [DefaultContentType], application/json.
	ContentType string

	// KeyHeader names the header that carries the message's id. Default: [DefaultKeyHeader], Idempotency-Key. Standard
	// Webhooks calls it webhook-id.
	KeyHeader string

	// ForwardHeaders names the headers of a message that are sent with its request. Case does not matter. Default:
	// none.
	ForwardHeaders []string

	// Timeout bounds one request, from dialling to the end of the answer. Default: [DefaultTimeout], 10 seconds.
	Timeout time.Duration

	// Statuses overrides the outcomes of single statuses. For example, 404: Retry is for a receiver whose routes are
	// missing for a moment during a deployment, and 503: Unavailable for a proxy that answers so while the receiver is
	// away. Default: the table in the package documentation.
	Statuses map[int]Verdict

	// NoAnswer is the outcome where a request has no answer, because its Timeout has passed or its connection broke.
	// Unavailable is for a receiver that answers each request in time as long as it works at all, such as a broker's
	// proxy. If a single message can take too long, its topic would rest because of it. Default: [Retry].
	NoAnswer Verdict

	// PublicOnly refuses to dial addresses that are not public: loopback, private and link-local ones and those of
	// other special uses. Set it if others choose the URL. It turns off proxies.
	PublicOnly bool

	// Prepare may change a request before it is sent, for example to sign it or to send it to the URL of the message's
	// customer. Package webhook signs m.ID, the time and m.Payload, and not the header Txwork-Topic: give each topic a
	// URL and a secret of its own, or put the topic into the payload. If it returns an error, nothing is sent and the
	// error is the outcome of the delivery. Default: none.
	Prepare func(r *http.Request, m *outbox.Delivery) error

	// Transport sends the requests, for client certificates or tests. It cannot be combined with PublicOnly. Default: a
	// transport of the poster's own.
	Transport http.RoundTripper
}

// A Poster posts messages to a URL, see the package's documentation. It is safe for concurrent use.
type Poster struct {
	poster  *httppost.Poster
	prepare func(r *http.Request, m *outbox.Delivery) error
}

// NewPoster validates the options. It does not resolve or dial.
func NewPoster(o Options) (*Poster, error) {
	p, err := httppost.NewPoster(httppost.PosterOptions{
		ClientOptions:  httppost.ClientOptions{Timeout: o.Timeout, PublicOnly: o.PublicOnly, Transport: o.Transport},
		URL:            o.URL,
		Option:         "outboxhttp.Options.URL",
		Header:         o.Header,
		ContentType:    o.ContentType,
		KeyHeader:      o.KeyHeader,
		ForwardHeaders: o.ForwardHeaders,
		Statuses:       o.Statuses,
		NoAnswer:       o.NoAnswer,
	})
	if err != nil {
		return nil, err
	}
	return &Poster{p, o.Prepare}, nil
}

// Deliver posts a message; it is an [outbox.Handler].
func (p *Poster) Deliver(ctx context.Context, m *outbox.Delivery) error {
	var prepare func(*http.Request) error
	if p.prepare != nil {
		prepare = func(r *http.Request) error { return p.prepare(r, m) }
	}
	return p.poster.Post(ctx, httppost.Message{
		ID: m.ID.String(), Topic: m.Topic, Key: m.Key, Attempt: m.Attempt, Headers: m.Headers, Payload: m.Payload,
	}, prepare)
}

// Close closes idle connections.
func (p *Poster) Close() { p.poster.Close() }
