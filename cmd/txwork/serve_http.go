package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/txwork/txwork/internal/netlimit"
)

// requestsShutdown is how long requests that are under way may take after a signal: they are short.
const requestsShutdown = 5 * time.Second

// errorLog is where an http.Server says what it does not tell its handler, such as panics. Its default is Go's own
// logger, whose lines would stand between those of ours.
func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelWarn) }

// maxProbeConnections is more than those that read probes and metrics need.
const maxProbeConnections = 100

// bounded closes connections beyond a number at once, so that no client can use up the files of the process.
func bounded(l net.Listener, most int) net.Listener {
	return netlimit.Listen(l, most, func(c net.Conn) { c.Close() })
}

// serveBeside serves until run has ended, so that probes are answered while handlers finish after a signal. If the
// server fails, the context of run ends.
func serveBeside(ctx context.Context, server *http.Server, listener net.Listener,
	run func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- serveHTTP(serving, server, listener)
	}()
	err := run(running)
	end()
	return errors.Join(err, <-served)
}

// serveHTTP serves until ctx ends, and then waits for the requests that are under way.
func serveHTTP(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestsShutdown)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
