package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers/alarms"
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

// run serves the API and delivers wakes until it is interrupted. If one part fails, the others are stopped.
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
		MaxBody: s.maxBody, Rate: s.rate, Burst: s.burst, Health: dispatcher.Check, Version: version(),
		Logger: s.app.logger(),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	parts := []service.Part{
		dispatcher,
		beside(func(ctx context.Context) error { return serveHTTP(ctx, server.HTTP(), listener) }),
	}
	if !s.noReaper {
		parts = append(parts, d.takeOver(s.alarms.Timers().Table()))
	}
	all, err := d.service(parts...)
	if err != nil {
		listener.Close()
		return err
	}
	if err := s.announce(listener.Addr(), all.Runtime().MaxConnections()+int(d.pool.Config().MaxConns)); err != nil {
		listener.Close()
		return err
	}
	return all.Run(ctx)
}

// servedAlarms is what serve prints once the API answers.
type servedAlarms struct {
	Serving        string `json:"serving"`         // URL of the API
	MaxConnections int    `json:"max_connections"` // largest number of connections to the database at once
}

// announce tells where the API is, and how many connections to the database there may be at once.
func (s *alarmsService) announce(at net.Addr, connections int) error {
	if s.json {
		return s.app.printJSON(servedAlarms{"http://" + at.String(), connections})
	}
	_, err := fmt.Fprintf(s.app.stderr, "txwork: serving alarms on http://%s\n", at)
	return err
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
