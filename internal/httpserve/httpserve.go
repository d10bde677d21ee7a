// Package httpserve runs an HTTP server until a context ends.
package httpserve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// requestsShutdown is how long requests that are under way may take when the context has ended: they are short.
const requestsShutdown = 5 * time.Second

// Run serves until ctx ends, and then waits at most 5 seconds for the requests that are under way.
func Run(ctx context.Context, server *http.Server, listener net.Listener) error {
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
