package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/txwork/txwork/internal/httpserve"
	"github.com/txwork/txwork/internal/netlimit"
)

// errorLog is where an http.Server says what it does not tell its handler, such as panics. Its default is Go's own
// logger, whose lines would stand between those of ours.
func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelWarn) }

// pages is a server of pages, each of which may take so long to read.
func (a *app) pages(h http.Handler, reading time.Duration) *http.Server {
	const idle, transfer = 2 * time.Minute, 10 * time.Second
	return &http.Server{Handler: h, ReadTimeout: transfer, WriteTimeout: reading + transfer, IdleTimeout: idle,
		MaxHeaderBytes: 1 << 16, ErrorLog: errorLog(a.logger())}
}

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
		served <- httpserve.Run(serving, server, listener)
	}()
	err := run(running)
	end()
	return errors.Join(err, <-served)
}
