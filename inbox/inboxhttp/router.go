package inboxhttp

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue/topics"
)

// A Router is the HTTP handler of [Process] with a handler for each topic, like an [inbox.Worker]. It is safe for
// concurrent use.
//
// A message whose topic has no handler is answered by 500, so that the sender sends it again: during a deployment,
// another process may have the handler. The log names the topic.
type Router struct {
	handlers *topics.Registry[Handler]
	process  http.Handler
}

// NewRouter creates a router. Register its handlers, then serve it.
func NewRouter(pool *pgxpool.Pool, box *inbox.Inbox, o Options) (*Router, error) {
	handlers := topics.NewRegistry[Handler]("inboxhttp")
	process, err := Process(pool, box, o, func(ctx context.Context, tx pgx.Tx, m *Message) error {
		h, err := handlers.Find(m.Topic)
		if err != nil {
			return err
		}
		return h(ctx, tx, m)
	})
	if err != nil {
		return nil, err
	}
	return &Router{handlers, process}, nil
}

// Handle registers the handler of a topic. Topics are compared byte for byte; there are no patterns. Like
// [net/http.ServeMux] it panics on what cannot be meant: a topic that [topics.Check] refuses, a nil handler, or a topic
// that has a handler already.
func (r *Router) Handle(topic string, h Handler) { r.handlers.Handle(topic, h) }

// HandleAll registers the handler of every topic that has none of its own. It panics like [Router.Handle].
func (r *Router) HandleAll(h Handler) { r.handlers.HandleAll(h) }

// ServeHTTP answers one request, as the package documentation describes.
func (r *Router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.process.ServeHTTP(w, request)
}
