package service_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/txwork/txwork/service"
)

// A handler is served beside the parts, and stops with them.
func TestAHandlerOnAListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.ok(err)
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") })
	s, err := service.New(w.db.Pool, service.Options{Logger: w.logger()}, w.relay, service.HTTP(listener, page))
	w.ok(err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + listener.Addr().String()) // the listener keeps it until the service runs
	w.ok(err)
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if w.ok(err); string(body) != "the page" {
		t.Errorf("the handler answers %q", body)
	}
	stop()
	w.ok(<-ended)
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// A listener that fails stops the service, as a part does that ends by itself.
func TestAListenerThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.ok(err)
	w.ok(listener.Close())
	s, err := service.New(w.db.Pool, service.Options{Logger: w.logger()}, w.relay,
		service.HTTP(listener, http.NotFoundHandler()))
	w.ok(err)
	if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the service ends with %v", err)
	}
}
