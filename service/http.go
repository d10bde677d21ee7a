package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/txwork/txwork/internal/httpserve"
	"github.com/txwork/txwork/workqueue"
)

// Limits of the server of [HTTP].
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 1 << 16
)

// HTTP returns a part that serves a handler on a listener of its own, such as the dashboard of package webui. When the
// service stops, it stops with the other parts, and requests that are under way get 5 seconds to end. It closes the
// listener, but only if the service has run it.
func HTTP(l net.Listener, h http.Handler) Part { return &httpPart{l, h} }

type httpPart struct {
	listener net.Listener
	handler  http.Handler
}

func (p *httpPart) Workers() []*workqueue.Worker { return nil }

func (p *httpPart) Tables() []*workqueue.Table { return nil }

// Run implements [Part].
func (p *httpPart) Run(ctx context.Context) error {
	server := &http.Server{Handler: p.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn)}
	return httpserve.Run(ctx, server, p.listener)
}
