package inboxhttp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Message is passed to a [Handler]. A test of a handler can construct one.
type Message struct {
	ID      string // as the source sent it
	Topic   string // see [Options].Topic
	Body    []byte // never nil
	Request *http.Request
}

// Decode decodes Body as JSON into the value that the pointer points to. The error is a [*codec.DecodeError]. With it,
// [codec.HandlerIn] turns a function of the decoded value into a [Handler].
func (m *Message) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, codec.JSON{}, codec.Envelope{}, m.Body, into)
}

// A Handler processes one message in the transaction that records the message's id: both commit or neither does. An
// error rolls back. The package documentation lists how errors are answered. The context carries the span of the call.
type Handler = func(ctx context.Context, tx pgx.Tx, m *Message) error

// Process returns an HTTP handler that runs fn for each message with [inbox.Inbox.Process], in the transaction that
// records the message's id. The package documentation lists its answers. The handler is safe for concurrent use, and fn
// has to be, too.
func Process(pool *pgxpool.Pool, box *inbox.Inbox, o Options, fn Handler) (http.Handler, error) {
	if fn == nil {
		return nil, validate.Errorf("function", "is nil")
	}
	process := func(ctx context.Context, o Options, m *Message) (inbox.Result, error) {
		key := inbox.Key{Consumer: o.Consumer, Source: o.Source, MessageID: m.ID, Topic: m.Topic, Body: m.Body}
		if o.AnyBody {
			key.BodyHash = anyBody(o.Source, m.Topic)
		}
		w := newWait(ctx, o.MaxWait)
		defer w.end()
		var refused error
		result, err := box.Process(w.ctx, pool, key, func(ctx context.Context, tx pgx.Tx) error {
			if err := w.over(); err != nil {
				return err
			}
			refused = call(fn, ctx, tx, m)
			return refused
		})
		if refused != nil {
			err = &functionError{refused}
		}
		return result, w.explain(err)
	}
	return newHandler(pool, box, o, process)
}

// Receive returns an HTTP handler that stores messages with [inbox.Inbox.Receive], for an [inbox.Worker]. The handler
// is safe for concurrent use.
func Receive(pool *pgxpool.Pool, box *inbox.Inbox, o ReceiveOptions) (http.Handler, error) {
	receive := func(ctx context.Context, limits Options, m *Message) (result inbox.Result, err error) {
		message := o.message(m)
		w := newWait(ctx, limits.MaxWait)
		defer w.end()
		err = pgx.BeginTxFunc(w.ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if err := w.over(); err != nil {
				return err
			}
			result, err = box.Receive(ctx, workqueue.Pgx(tx), message)
			return err
		})
		return result, w.explain(err)
	}
	return newHandler(pool, box, o.Options, receive)
}

func (o ReceiveOptions) message(m *Message) inbox.Message {
	message := inbox.Message{Consumer: o.Consumer, Source: o.Source, MessageID: m.ID, Topic: m.Topic, Payload: m.Body,
		Headers: o.kept(m.Request.Header)}
	if o.AnyBody {
		message.BodyHash = anyBody(o.Source, m.Topic)
	}
	return message
}

// anyBody returns a hash that is the same for every body of a topic.
func anyBody(source, topic string) []byte {
	if topic == source {
		topic = ""
	}
	hash := sha256.Sum256([]byte(topic))
	return hash[:]
}

// A functionError wraps an error that the function of [Process] returned, to distinguish it from errors of the inbox.
type functionError struct{ error }

func (e *functionError) Unwrap() error { return e.error }

// A handler passes the messages of requests to the inbox, and answers with the result.
type handler struct {
	options Options
	take    func(ctx context.Context, o Options, m *Message) (inbox.Result, error)
}

func newHandler(pool *pgxpool.Pool, box *inbox.Inbox, o Options, take func(context.Context, Options,
	*Message) (inbox.Result, error)) (http.Handler, error) {
	o = o.withDefaults()
	if err := o.validate(pool, box); err != nil {
		return nil, err
	}
	return &handler{o, take}, nil
}

// call calls a function, whose panic is an error: package net/http would close the connection without an answer, and
// tell only its own logger. It lets a panic pass that asks for just that.
func call(fn Handler, ctx context.Context, tx pgx.Tx, m *Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	return fn(ctx, tx, m)
}

func panicked(r any) error {
	if r == http.ErrAbortHandler {
		panic(r)
	}
	return fmt.Errorf("%w: %v\n%s", contain.ErrPanicked, r, debug.Stack())
}

// ServeHTTP answers one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() { // of Options.Verify and Options.Topic
		if p := recover(); p != nil {
			h.options.Logger.LogAttrs(r.Context(), slog.LevelError, "inbox request could not be read",
				slog.String("consumer", h.options.Consumer), slog.String("source", h.options.Source),
				slog.Any("error", panicked(p)))
			failed.write(w)
		}
	}()
	m, refused := h.read(w, r)
	if refused != nil {
		refused.write(w)
		return
	}
	ctx := continued(r)
	result, err := h.take(ctx, h.options, m)
	a := h.answer(result, err)
	if err != nil && a.status >= 500 {
		level := slog.LevelError
		switch {
		case r.Context().Err() != nil: // the sender has disconnected
			level = slog.LevelDebug
		case errors.Is(err, errBusy):
			level = slog.LevelWarn
		}
		h.options.Logger.LogAttrs(ctx, level, "inbox message was not taken",
			slog.String("consumer", h.options.Consumer), slog.String("source", h.options.Source),
			slog.String("message_id", m.ID), slog.Int("status", a.status), slog.Any("error", err))
	}
	a.write(w)
}

// continued returns the request's context. It continues the sender's trace, unless middleware has started a span
// already.
func continued(r *http.Request) context.Context {
	ctx := r.Context()
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
}

// read returns the message of a request, or the answer that refuses the request.
func (h *handler) read(w http.ResponseWriter, r *http.Request) (*Message, *answer) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &answer{status: http.StatusMethodNotAllowed, text: "use POST"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.options.MaxBody)))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &answer{status: http.StatusRequestEntityTooLarge,
			text: fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit)}
	case err != nil:
		return nil, &answer{status: http.StatusBadRequest, text: "the body cannot be read"}
	}
	v, err := h.options.identify(r, body)
	var malformed *malformedError
	switch {
	case errors.As(err, &malformed):
		return nil, &answer{status: http.StatusBadRequest, text: malformed.text}
	case err != nil:
		h.options.Logger.LogAttrs(r.Context(), slog.LevelWarn, "inbox request was refused",
			slog.String("consumer", h.options.Consumer),
			slog.String("source", h.options.Source), slog.Any("error", err))
		return nil, &answer{status: http.StatusUnauthorized, text: "the request is not the source's"}
	}
	return &Message{ID: v.ID, Topic: v.Topic, Body: body, Request: r}, nil
}

// answer translates the result of the inbox, or the error of the function, into an HTTP answer.
func (h *handler) answer(result inbox.Result, err error) answer {
	var function *functionError
	var outcome *workqueue.Outcome
	delay, later := time.Duration(0), false
	if errors.As(err, &function) && errors.As(function.error, &outcome) {
		delay, later = outcome.RetryDelay()
	}
	status := inbox.HTTPStatus(result, err)
	switch {
	case err == nil && status == http.StatusServiceUnavailable:
		return answer{status, result.Answer.String(), h.options.RetryAfter}
	case err == nil, status < 500:
		return answer{status: status, text: said(result, err)}
	case outcome != nil && outcome.IsPermanent():
		return answer{status: http.StatusUnprocessableEntity, text: outcome.Error()}
	case later:
		return answer{http.StatusServiceUnavailable, "try again later", delay}
	case function == nil || unavailable(function.error):
		return answer{http.StatusServiceUnavailable, "try again later", h.options.RetryAfter}
	}
	return failed
}

// failed is the answer to a message whose function failed.
var failed = answer{status: http.StatusInternalServerError, text: "the message could not be processed; send it again"}

func said(result inbox.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return result.Answer.String()
}

// An answer is the response to a sender.
type answer struct {
	status     int
	text       string
	retryAfter time.Duration // 0: the header is left out
}

func (a answer) write(w http.ResponseWriter) {
	if a.retryAfter > 0 {
		seconds := (a.retryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	http.Error(w, a.text, a.status)
}
