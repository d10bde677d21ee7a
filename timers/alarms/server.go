package alarms

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue/validate"
)

// OpenAPI describes the REST API as an OpenAPI 3.1 document. GET /openapi.json serves it.
//
//go:embed openapi.json
var OpenAPI []byte

// Defaults of [ServerOptions].
const (
	// DefaultMaxBody is the largest body of a request, in bytes.
	DefaultMaxBody = 256 << 10
	// DefaultRate and DefaultBurst limit the requests of one owner. They are more than an agent should need.
	DefaultRate  = 20 // per second
	DefaultBurst = 40
	// DefaultMaxConnections is how many connections may be open at once. Each takes some kilobytes and a file of the
	// process.
	DefaultMaxConnections = 1000
)

// Limits that protect the server from slow clients and large headers, and clients from a slow database.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	requestTimeout    = 10 * time.Second
	healthTimeout     = 2 * time.Second
	maxHeader         = 32 << 10 // bytes
)

// ServerOptions configure a [Server]. The zero value is usable.
type ServerOptions struct {
	// MaxBody is the largest body of a request, in bytes. A larger one is answered with 413. Default: [DefaultMaxBody].
	MaxBody int64

	// Rate is how many requests per second one owner may make on average, and Burst how many at once. Requests beyond
	// that are answered with 429. Each process counts for itself, in memory. A negative Rate means no limit. Defaults:
	// [DefaultRate] and [DefaultBurst].
	Rate  float64
	Burst int

	// MaxConnections is how many connections may be open at once on a listener of [Server.Listener]. A further one is
	// answered with 503 and closed. Default: [DefaultMaxConnections].
	MaxConnections int

	// Health is an additional check for GET /healthz, such as [Dispatcher.Check]. The database and the privileges of
	// the API are always checked. Default: none.
	Health func(ctx context.Context) error

	// Version is the version that GET / and GET /healthz answer. Default: "unknown".
	Version string

	// Logger receives failures of the server. It never receives payloads, messages or tokens. Default: slog.Default.
	Logger *slog.Logger
}

// A Server is the REST API: an [http.Handler].
type Server struct {
	store   *Store
	auth    Authenticator
	options ServerOptions
	buckets *buckets // nil: no limit
	mux     *http.ServeMux
	sick    atomic.Bool // the last health check failed
}

// A route is a method on a path.
type route struct {
	method, path string
	handle       http.HandlerFunc
}

// NewServer creates a server on a Store of [Alarms.On]. An Authenticator is required.
func NewServer(store *Store, auth Authenticator, o ServerOptions) (*Server, error) {
	switch {
	case store == nil || store.pool == nil:
		return nil, validate.Errorf("store", "is nil, or inside a transaction")
	case auth == nil:
		return nil, validate.Errorf("authenticator", "is nil: nobody could be told from anybody")
	case o.MaxBody < 0 || o.Burst < 0 || o.MaxConnections < 0:
		return nil, validate.Errorf("server options", "are negative")
	}
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.Rate = cmp.Or(o.Rate, DefaultRate)
	o.Burst = cmp.Or(o.Burst, DefaultBurst)
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	o.Version = cmp.Or(o.Version, "unknown")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Server{store: store, auth: auth, options: o}
	if o.Rate > 0 {
		s.buckets = newBuckets(o.Rate, o.Burst)
	}
	s.mux = s.routes()
	return s, nil
}

func (s *Server) table() []route {
	return []route{
		{"GET", "/", s.root},
		{"GET", "/healthz", s.health},
		{"GET", "/openapi.json", s.openAPI},
		{"POST", "/v1/alarms", s.owned(s.create)},
		{"GET", "/v1/alarms", s.owned(s.list)},
		{"GET", "/v1/alarms/{id}", s.owned(s.get)},
		{"DELETE", "/v1/alarms/{id}", s.owned(s.cancel)},
	}
}

// routes registers handlers for all other methods and paths, too, so that every answer is an envelope.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, r := range s.table() {
		pattern := strings.TrimSuffix(r.path, "/") // only "/" ends with a slash, and it must not match other paths
		pattern = cmp.Or(pattern, "/{$}")
		mux.HandleFunc(r.method+" "+pattern, r.handle)
		allowed[pattern] = append(allowed[pattern], r.method)
	}
	for pattern, methods := range allowed {
		slices.Sort(methods)
		mux.HandleFunc(pattern, wrongMethod(strings.Join(methods, ", ")))
	}
	mux.HandleFunc("/", nothing)
	return mux
}

func nothing(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusNotFound, answerError{Code: codeNotFound, Message: "there is nothing here"})
}

func wrongMethod(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		refuse(w, http.StatusMethodNotAllowed, answerError{Code: codeMethodNotAllowed, Message: "this path takes " +
			allowed})
	}
}

// ServeHTTP implements [http.Handler]. It answers a path that is not clean with 404, because the mux would answer with
// a redirect and a page of HTML. It answers a query that cannot be parsed with 400, because package net/url would leave
// out parts of it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.contain(w, r)
	if escaped := r.URL.EscapedPath(); path.Clean(escaped) != escaped || r.RequestURI == "*" {
		nothing(w, r)
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		refuseError(w, validate.Errorf(queryField, "cannot be parsed: %v", err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

// contain answers and logs a panic, for example of the Authenticator. Package net/http would close the connection
// without an answer.
func (s *Server) contain(w http.ResponseWriter, r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.trouble(w, r, fmt.Errorf("%w: %v\n%s", contain.ErrPanicked, p, debug.Stack()))
	}
}

// HTTP returns an [http.Server] for the handler, with time and size limits. Serve it on a [Server.Listener].
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,

		DisableGeneralOptionsHandler: true, // whose answer would be no envelope
		ErrorLog:                     slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelWarn),
	}
}

// owned authenticates the request and applies the rate limit before the request is handled.
func (s *Server) owned(handle func(http.ResponseWriter, *http.Request, Owner) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		owner, err := s.auth.Authenticate(r)
		switch {
		case errors.Is(err, ErrUnauthorized), err == nil && owner.DID == "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, answerError{Code: codeUnauthorized,
				Message: "missing or invalid bearer token"})
			return
		case err != nil:
			s.trouble(w, r, err)
			return
		}
		if !s.admit(w, owner) {
			return
		}
		switch err := handle(w, r, owner); {
		case err == nil || refuseError(w, err):
		case outage.Is(err):
			s.unavailable(w, r, err)
		default:
			s.trouble(w, r, err)
		}
	}
}

func (s *Server) admit(w http.ResponseWriter, owner Owner) bool {
	if s.buckets == nil {
		return true
	}
	wait, ok := s.buckets.take(owner.DID, time.Now())
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		refuse(w, http.StatusTooManyRequests, answerError{Code: codeRateLimited,
			Message: "too many requests of this owner", Retryable: true})
	}
	return ok
}

// unavailable answers a request for which the database had no time or no connection.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	s.log(r, err)
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, answerError{Code: codeUnavailable,
		Message: "the database does not answer in time", Retryable: true})
}

func (s *Server) log(r *http.Request, err error) {
	if r.Context().Err() != context.Canceled { // otherwise the client has disconnected
		s.options.Logger.ErrorContext(r.Context(), "request failed", slog.String("method", r.Method),
			slog.String("route", r.Pattern), slog.Any("error", err))
	}
}

// trouble logs an internal error, and answers without its details.
func (s *Server) trouble(w http.ResponseWriter, r *http.Request, err error) {
	s.log(r, err)
	refuse(w, http.StatusInternalServerError, answerError{Code: codeInternal, Message: "internal error",
		Retryable: true})
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, owner Owner) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxBody))
	if err != nil {
		return readError(err)
	}
	n, err := parseCreate(body)
	if err != nil {
		return err
	}
	n.OwnerDID, n.UserID = owner.DID, owner.UserID
	a, deduped, err := s.store.CreateAlarm(r.Context(), n)
	if err != nil {
		return err
	}
	answer(w, createAnswer{ID: a.ID, NextFireAt: a.NextFireAt, Status: a.Status, Deduped: deduped})
	return nil
}

// readError distinguishes a body that is too large from one that did not arrive completely.
func readError(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return validate.Errorf("body", "did not arrive")
}

// queryField is the field of a request whose query cannot be parsed.
const queryField = "query"

func (s *Server) list(w http.ResponseWriter, r *http.Request, owner Owner) error {
	query := r.URL.Query()
	for name, values := range query {
		if name != "limit" && name != "cursor" {
			return validate.Errorf(clip(name), "is no parameter of this request")
		}
		if len(values) > 1 {
			return validate.Errorf(name, "is there more than once")
		}
	}
	limit, err := parseLimit(r)
	if err != nil {
		return err
	}
	after, err := parseCursor(query.Get("cursor"))
	if err != nil {
		return err
	}
	p, err := s.store.page(r.Context(), owner.DID, after, limit)
	if err == nil {
		answer(w, p)
	}
	return err
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, owner Owner) error {
	a, err := s.store.GetAlarm(r.Context(), r.PathValue("id"), owner.DID)
	if err == nil {
		answer(w, ViewOf(a))
	}
	return err
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request, owner Owner) error {
	a, err := s.store.CancelAlarm(r.Context(), r.PathValue("id"), owner.DID)
	if err == nil {
		answer(w, ViewOf(a))
	}
	return err
}

func (s *Server) root(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]string{"service": "txwork-alarms", "version": s.options.Version, "health": "/healthz",
		"openapi": "/openapi.json"})
}

// health answers whether the service can work. The reason why it cannot is logged once, when the service becomes
// unhealthy.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	err := s.checkHealth(ctx)
	if err != nil {
		if !s.sick.Swap(true) {
			s.options.Logger.ErrorContext(ctx, "the service is not healthy", slog.Any("error", err))
		}
		write(w, http.StatusServiceUnavailable, envelope{
			Data: s.healthData("unavailable", false),
			Error: &answerError{Code: codeUnavailable,
				Message: "the database does not answer, or does not let the service work", Retryable: true},
		})
		return
	}
	s.sick.Store(false)
	answer(w, s.healthData("ok", true))
}

func (s *Server) checkHealth(ctx context.Context) error {
	if err := s.store.check(ctx, false); err != nil || s.options.Health == nil {
		return err
	}
	return s.options.Health(ctx)
}

func (s *Server) healthData(status string, db bool) map[string]any {
	return map[string]any{"status": status, "version": s.options.Version, "db": db}
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(OpenAPI)
}
