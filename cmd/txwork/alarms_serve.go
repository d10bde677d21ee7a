package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// requestsShutdown is how long requests that are under way may take after a signal: they are short.
const requestsShutdown = 5 * time.Second

// An alarmsService is one run of alarms serve.
type alarmsService struct {
	alarmsOptions
	app    *app
	tokens *alarms.Tokens
	waker  *alarms.HTTPWaker
	alarms *alarms.Alarms
}

// newAlarmsService checks everything that can be checked without a database.
func newAlarmsService(a *app, o alarmsOptions) (*alarmsService, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := a.checkSchema(); err != nil {
		return nil, err
	}
	tokens, err := a.alarmsTokens(o)
	if err != nil {
		return nil, err
	}
	waker, err := a.alarmsWaker(o)
	if err != nil {
		return nil, err
	}
	opened, err := alarms.Open(alarms.Options{Schema: a.schema, MaxFailures: o.maxFailures, Telemetry: a.telemetry()})
	if err != nil {
		return nil, usageError{err}
	}
	return &alarmsService{o, a, tokens, waker, opened}, nil
}

// run serves and delivers until it is interrupted. What cannot go on stops the rest.
func (s *alarmsService) run(ctx context.Context, d *database) error {
	defer s.waker.Close()
	dispatcher, err := alarms.NewDispatcher(d.pool, s.alarms, s.waker, s.DispatcherOptions)
	if err != nil {
		return err
	}
	if err := dispatcher.Check(ctx); err != nil {
		return err
	}
	server, err := alarms.NewServer(s.alarms.On(d.pool), s.tokens, alarms.ServerOptions{
		MaxBody: s.maxBody, Rate: s.rate, Burst: s.burst, Health: dispatcher.Check, Version: version(), Logger: s.app.logger(),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.app.stderr, "txwork: serving alarms on http://%s\n", listener.Addr())
	return s.runAll(ctx, func(ctx context.Context) error { return serveHTTP(ctx, server.HTTP(), listener) }, dispatcher.Run,
		func(ctx context.Context) error { s.reap(ctx, d); return nil })
}

// runAll runs parts side by side until ctx ends or one of them fails.
func (s *alarmsService) runAll(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// serveHTTP serves until ctx ends, and then finishes the requests that are under way.
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

// reap takes back alarms that servers which died have left, as the relay does with messages.
func (s *alarmsService) reap(ctx context.Context, d *database) {
	working := true
	for !s.noReaper && ctx.Err() == nil {
		_, err := d.reap(ctx, s.alarms.Timers().Table(), workqueue.MaxBatch)
		if err != nil && working && ctx.Err() == nil {
			s.app.logger().Warn("reaping fails: alarms of servers that died stay where they are; --no-reaper turns it off", "error", err)
		}
		working = err == nil
		sleep(ctx, reapInterval)
	}
}
