package inboxhttp

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/webhook"
	"github.com/txwork/txwork/workqueue/validate"
)

// Defaults of [Options].
const (
	// DefaultKeyHeader is what most senders use.
	DefaultKeyHeader = "Idempotency-Key"
	// DefaultRetryAfter suits functions that take milliseconds.
	DefaultRetryAfter = time.Second
	// DefaultMaxWait is shorter than senders wait for an answer.
	DefaultMaxWait = 2 * time.Second
)

// TopicHeader is the header in which package outboxhttp sends the topic of a message. Bytes that are not printable
// ASCII are percent-encoded in it. [Message].Topic is the decoded topic.
const TopicHeader = "Txwork-Topic"

// Options configure a handler. Consumer and Source are required.
type Options struct {
	// Consumer names the part of the application that processes the messages, see [inbox.Key].
	Consumer string

	// Source names the system that sends them, see [inbox.Key].
	Source string

	// KeyHeader names the header that carries the message's id. Default: [DefaultKeyHeader]. Standard Webhooks calls it
	// webhook-id. Leave it empty if you set Verify, which returns the id.
	KeyHeader string

	// Topic returns the topic of a message, which selects its handler in a [Router] or an [inbox.Worker]. Webhooks may
	// have it in the path, or in a header of their own. Default: the header [TopicHeader], decoded. Without a topic, it
	// is the source. Leave it nil if you set Verify, which returns the topic.
	Topic func(r *http.Request) string

	// MaxBody is the largest body in bytes. Default: [inbox.DefaultMaxPayload].
	MaxBody int

	// AnyBody treats a message with a known id as a duplicate, whatever its body is. It is for sources that encode the
	// same message differently each time.
	AnyBody bool

	// Verify checks that a request comes from the source, and returns the message's id and topic, taken from what it
	// has checked. If it returns an error, the request is refused and the error logged. [StandardWebhooks] is a Verify
	// for senders that sign. [Unsigned] helps with tokens. Default: every request is accepted.
	//
	// The inbox's DedupWindow has to be at least twice [webhook.DefaultTolerance]: for so long a request that was
	// captured can be sent again, if the sender's clock is ahead. A Verify that accepts older requests needs more.
	Verify func(r *http.Request, body []byte) (Verified, error)

	// RetryAfter is how long a sender is asked to wait if the message is in progress or the database is unavailable. It
	// is rounded up to seconds. Default: [DefaultRetryAfter].
	RetryAfter time.Duration

	// MaxWait is how long a message waits for its transaction: for a connection of the pool and the begin of the
	// transaction in which the function runs, or the message is stored. Then it is answered by 503 with RetryAfter.
	// While functions hold all connections, senders would otherwise wait in a queue that only grows. Default:
	// [DefaultMaxWait].
	MaxWait time.Duration

	// Logger receives failures, and requests that Verify refuses. Default: slog.Default.
	Logger *slog.Logger
}

// ReceiveOptions configure the handler of [Receive].
type ReceiveOptions struct {
	Options

	// KeepHeaders names the request headers that are stored with the message, whatever their case. They are stored
	// under their names in lower case. Several values of one header are joined by commas. Default: content-type.
	KeepHeaders []string
}

func (o Options) withDefaults() Options {
	o.MaxBody = cmp.Or(o.MaxBody, inbox.DefaultMaxPayload)
	o.RetryAfter = cmp.Or(o.RetryAfter, DefaultRetryAfter)
	o.MaxWait = cmp.Or(o.MaxWait, DefaultMaxWait)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

func (o Options) validate(pool *pgxpool.Pool, box *inbox.Inbox) error {
	switch {
	case pool == nil:
		return validate.Errorf("pool", "is nil")
	case box == nil:
		return validate.Errorf("inbox", "is nil")
	case o.Verify != nil && (o.KeyHeader != "" || o.Topic != nil):
		return validate.Errorf("verify", "returns the id and the topic, so key header and topic have to be empty: what "+
			"the signature does not cover can be changed by whoever has seen a request. Unsigned reads them from headers")
	case o.Verify != nil && box.Table().Spec().Retention < 2*webhook.DefaultTolerance:
		return validate.Errorf("verify", "needs a dedup window of at least %v, it is %v: a signature is valid for as long, "+
			"and a request that was captured would take effect again", 2*webhook.DefaultTolerance,
			box.Table().Spec().Retention)
	case o.MaxBody < 0:
		return validate.Errorf("max body", "is %d, it cannot be negative", o.MaxBody)
	case o.MaxWait < 0:
		return validate.Errorf("max wait", "is %v, it cannot be negative", o.MaxWait)
	case o.RetryAfter < 0:
		return validate.Errorf("retry after", "is %v, it cannot be negative", o.RetryAfter)
	}
	return cmp.Or(
		input.Name("consumer", o.Consumer, inbox.MaxKeyPart),
		input.Name("source", o.Source, inbox.MaxKeyPart),
	)
}

// kept returns the headers that are stored with the message.
func (o ReceiveOptions) kept(h http.Header) map[string]string {
	names := o.KeepHeaders
	if names == nil {
		names = []string{"content-type"}
	}
	kept := map[string]string{}
	for name, values := range h {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			kept[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return kept
}
