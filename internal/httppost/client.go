package httppost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/txwork/txwork/workqueue/validate"
)

// DefaultTimeout is how long one request may take, from dialling to the end of the answer.
const DefaultTimeout = 10 * time.Second

// bodyWait is how long the body of an answer is waited for, once its status is known. The body decides nothing: it
// makes an error more readable, and its connection reusable. A receiver that sends it byte by byte would otherwise hold
// its sender until the timeout.
const bodyWait = time.Second

// maxAnswerHeader bounds the header of an answer.
const maxAnswerHeader = 64 << 10

// ClientOptions configure a [Client].
type ClientOptions struct {
	// Timeout bounds one request. Default: [DefaultTimeout].
	Timeout time.Duration

	// PublicOnly refuses to dial addresses that are not public, whatever the name was resolved to before. Proxies of
	// the environment are not used then: a proxy would be dialled instead of the receiver, and would dial any address
	// for us.
	PublicOnly bool

	// NoProxy leaves the proxies of the environment unused.
	NoProxy bool

	// IdleConns is how many idle connections are kept for each host. Default: [http.DefaultMaxIdleConnsPerHost].
	IdleConns int

	// Transport sends the requests instead of a transport made from the options above. Default: none.
	Transport http.RoundTripper
}

// A Client sends requests and reads a bounded part of the answers. It does not follow redirects, because they would
// change the method, the credentials or the receiver. It is safe for concurrent use.
type Client struct {
	timeout time.Duration
	client  *http.Client
}

// NewClient validates the options.
func NewClient(o ClientOptions) (*Client, error) {
	switch {
	case o.Timeout < 0:
		return nil, validate.Errorf("timeout", "is %v, it cannot be negative", o.Timeout)
	case o.Transport != nil && o.PublicOnly:
		return nil, validate.Errorf("public only",
			"cannot be kept to with a transport of your own, which dials by itself")
	case o.Timeout == 0:
		o.Timeout = DefaultTimeout
	}
	if o.Transport == nil {
		o.Transport = newTransport(o)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{o.Timeout, &http.Client{Transport: o.Transport, CheckRedirect: stay}}, nil
}

func newTransport(o ClientOptions) *http.Transport {
	dialer := &net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second}
	proxy := http.ProxyFromEnvironment
	if o.PublicOnly {
		dialer.ControlContext = refusePrivate
	}
	if o.PublicOnly || o.NoProxy {
		proxy = nil
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    o.IdleConns,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    o.Timeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}

// CheckURL refuses texts that are no URL to post to. The error quotes at most the scheme, since the URL may contain a
// secret. Option is what sets it.
func CheckURL(field, option, text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return validate.Errorf(field, "is missing: set %s", option)
	case err != nil:
		return validate.Errorf(field, "cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return validate.Errorf(field, "has scheme %.40q, it must be http or https", u.Scheme)
	case u.Hostname() == "":
		return validate.Errorf(field, "has no host")
	case u.User != nil:
		return validate.Errorf(field, "has a user or password: send credentials as a header")
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// A TransportError says why there is no answer. It leaves out the URL, which may contain a secret.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return e.Err.Error() }
func (e *TransportError) Unwrap() error { return e.Err }

// Do sends a request and reads its answer. If there is no answer, the error is a [*TransportError], the cause of the
// end of ctx, or the timeout that has passed.
func (c *Client) Do(ctx context.Context, request *http.Request) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	response, err := c.client.Do(request.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
		return Answer{}, &TransportError{WithoutURL(err)}
	}
	defer response.Body.Close()
	defer time.AfterFunc(bodyWait, cancel).Stop()
	return read(response), nil
}

// unreachable reports whether an error of Do says that no connection was made. An address that is refused says nothing
// about the receiver.
func unreachable(err error) bool {
	none, is := errors.AsType[*TransportError](err)
	if !is || errors.Is(err, ErrPrivate) {
		return false
	}
	op, is := errors.AsType[*net.OpError](none.Err)
	return is && op.Op == "dial"
}

// unanswered reports whether an error of Do, which was called with ctx, says that a request had no answer. One that its
// sender has cancelled, and one to an address that is refused, says nothing about the receiver.
func unanswered(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, ErrPrivate)
}

// WithoutURL removes the URL from an error, since it may contain a secret.
func WithoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
