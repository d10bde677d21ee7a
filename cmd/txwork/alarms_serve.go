package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers/alarms"
)

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
	dispatcher, err := alarms.NewDispatcher(d.Pool, s.alarms, s.waker, s.DispatcherOptions)
	if err != nil {
		return err
	}
	if err := dispatcher.Check(ctx); err != nil {
		return err
	}
	server, err := alarms.NewServer(s.alarms.On(d.Pool), s.tokens, alarms.ServerOptions{
		MaxBody: s.maxBody, Rate: s.rate, Burst: s.burst, Health: untilStopped(ctx, dispatcher.Check),
		Version: version(),
		Logger:  s.app.logger(),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	parts := []service.Part{dispatcher}
	if !s.noReaper {
		parts = append(parts, d.takeOver(s.alarms.Timers().Table()))
	}
	all, err := d.service(parts...)
	if err != nil {
		listener.Close()
		return err
	}
	if err := s.announce(listener.Addr(), all.Runtime().MaxConnections()+int(d.Pool.Config().MaxConns)); err != nil {
		listener.Close()
		return err
	}
	return serveBeside(ctx, server.HTTP(), server.Listener(listener), all.Run)
}

// untilStopped is a check that fails once ctx has ended, while deliveries finish and requests are still answered.
func untilStopped(ctx context.Context, check func(context.Context) error) func(context.Context) error {
	return func(request context.Context) error {
		if ctx.Err() != nil {
			return errors.New("the service stops")
		}
		return check(request)
	}
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
