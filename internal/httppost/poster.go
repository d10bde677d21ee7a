package httppost

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Defaults of [PosterOptions].
const (
	DefaultKeyHeader   = "Idempotency-Key"
	DefaultContentType = "application/json"
)

// Headers that describe the message of a request, percent-encoded if they contain anything but printable ASCII.
const (
	HeaderTopic   = "Txwork-Topic"
	HeaderKey     = "Txwork-Key"
	HeaderAttempt = "Txwork-Attempt"
)

// contentType is the header of a message that gives the type of its payload.
const contentType = "content-type"

// PosterOptions configure a [Poster].
type PosterOptions struct {
	ClientOptions

	URL            string
	Option         string          // where the user sets URL, for errors; default: url, as in a worker file
	Header         http.Header     // added to every request
	ContentType    string          // default: DefaultContentType
	KeyHeader      string          // default: DefaultKeyHeader
	ForwardHeaders []string        // headers of a message that are copied to its request
	Statuses       map[int]Verdict // override Judge
	NoAnswer       Verdict         // Retry or Unavailable; default: Retry
}

// A Poster posts messages to one URL. It is safe for concurrent use.
type Poster struct {
	options PosterOptions
	client  *Client
}

// A Message is what a request carries.
type Message struct {
	ID         string // the idempotency key
	Topic, Key string // empty if there is none
	Attempt    int
	Headers    map[string]string
	Payload    []byte
}

// NewPoster validates the options. It does not resolve names or dial.
func NewPoster(o PosterOptions) (*Poster, error) {
	o.KeyHeader = cmp.Or(o.KeyHeader, DefaultKeyHeader)
	o.ContentType = cmp.Or(o.ContentType, DefaultContentType)
	o.NoAnswer = cmp.Or(o.NoAnswer, Retry)
	if err := o.validate(); err != nil {
		return nil, err
	}
	client, err := NewClient(o.ClientOptions)
	if err != nil {
		return nil, err
	}
	o.Header = o.Header.Clone()
	return &Poster{o, client}, nil
}

func (o PosterOptions) validate() error {
	if err := CheckURL("url", cmp.Or(o.Option, "url"), o.URL); err != nil {
		return err
	}
	for _, name := range append([]string{o.KeyHeader}, o.ForwardHeaders...) {
		if err := checkName(name); err != nil {
			return err
		}
	}
	for name, values := range o.Header {
		for _, value := range values {
			if err := cmp.Or(checkName(name), checkValue(name, value)); err != nil {
				return err
			}
		}
	}
	for status, v := range o.Statuses {
		if status < 200 || status > 599 || v < Done || v > Unavailable {
			return validate.Errorf("statuses", "map %d to %d: statuses are 200 to 599, verdicts Done, Retry, "+
				"Permanent and Unavailable", status, v)
		}
	}
	if o.NoAnswer != Retry && o.NoAnswer != Unavailable {
		return validate.Errorf("no answer", "is %d, it must be Retry or Unavailable", o.NoAnswer)
	}
	return checkValue("Content-Type", o.ContentType)
}

// reserved are headers that the connection or the client sets.
var reserved = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true,
	"Trailer": true, "Te": true, "Upgrade": true}

const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func checkName(name string) error {
	switch {
	case name == "" || strings.Trim(name, tokenChars) != "":
		return validate.Errorf("header", "%.40q is no name of an HTTP header", name)
	case reserved[http.CanonicalHeaderKey(name)]:
		return validate.Errorf("header", "%s is the connection's own", name)
	}
	return nil
}

// checkValue never quotes a value, since it may be a secret.
func checkValue(name, value string) error {
	if strings.ContainsAny(value, "\r\n\x00") {
		return validate.Errorf("header", "%s has a line break or a NUL", name)
	}
	return nil
}

// Timeout is how long one request may take.
func (p *Poster) Timeout() time.Duration { return p.client.timeout }

// Close closes idle connections.
func (p *Poster) Close() { p.client.Close() }

// Post sends a message and returns the outcome of its answer. A receiver to which no connection can be made is
// Unavailable, as is one that does not answer if NoAnswer says so, unless Prepare has chosen another host: then it is
// the message's own. Prepare may change the request before; it may be nil.
func (p *Poster) Post(ctx context.Context, m Message, prepare func(*http.Request) error) error {
	request, err := p.request(ctx, m)
	if err != nil {
		return err
	}
	host := request.URL.Host
	if prepare != nil {
		if err := prepare(request); err != nil {
			return err
		}
	}
	answer, err := p.client.Do(ctx, request)
	own := request.URL.Host != host
	switch {
	case err == nil:
	case unreachable(err) && !own:
		return workqueue.Unavailable(fmt.Errorf("the receiver cannot be reached: %w", err))
	case unanswered(ctx, err) && !own && p.options.NoAnswer == Unavailable:
		return workqueue.Unavailable(fmt.Errorf("the receiver does not answer: %w", err))
	default:
		return fmt.Errorf("the request failed: %w", err)
	}
	verdict, ruled := p.options.Statuses[answer.Status]
	if !ruled {
		verdict = Judge(answer.Status)
	}
	return answer.Outcome(verdict, workqueue.DefaultRetry.Delay(m.Attempt))
}

func (p *Poster) request(ctx context.Context, m Message) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.options.URL, bytes.NewReader(m.Payload))
	if err != nil {
		return nil, WithoutURL(err)
	}
	request.Header.Set("Content-Type", p.options.ContentType)
	request.Header.Set("User-Agent", "txwork")
	p.forward(request.Header, m)
	for name, values := range p.options.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set(p.options.KeyHeader, m.ID)
	setText(request.Header, HeaderTopic, m.Topic)
	setText(request.Header, HeaderKey, m.Key)
	request.Header.Set(HeaderAttempt, strconv.Itoa(m.Attempt))
	injectTrace(ctx, request.Header, m.Headers)
	return request, nil
}

// forward copies the selected headers of the message. Names are compared without regard to case, as in HTTP.
func (p *Poster) forward(h http.Header, m Message) {
	for _, name := range append([]string{contentType}, p.options.ForwardHeaders...) {
		value, _ := header.Get(m.Headers, name)
		setText(h, name, value)
	}
}

// injectTrace continues the delivery's trace or, if there is none, the message's.
func injectTrace(ctx context.Context, h http.Header, headers map[string]string) {
	propagator := propagation.TraceContext{}
	propagator.Inject(ctx, propagation.HeaderCarrier(h))
	if h.Get("traceparent") == "" {
		propagator.Inject(propagator.Extract(ctx, header.Carrier(headers)), propagation.HeaderCarrier(h))
	}
}

// setText sets a header to any text, unless the text is empty.
func setText(h http.Header, name, text string) {
	if text != "" {
		h.Set(name, encode(text))
	}
}

// encode percent-encodes bytes that a header cannot contain.
func encode(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		inside := i > 0 && i < len(text)-1
		if c > ' ' && c <= '~' && c != '%' || c == ' ' && inside {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
