package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
	"github.com/txwork/txwork/internal/httpserve"
	"github.com/txwork/txwork/webui"
)

// freeLoopbackPort is an address of this machine only.
const freeLoopbackPort = "127.0.0.1:0"

// demoRefresh shows what the faults of the demo do, which is over after some seconds.
const demoRefresh = time.Second

// A demoWeb shows the demo on a dashboard.
type demoWeb struct {
	*app
	print    func(demo.Report) error
	listener net.Listener
	served   chan error
}

// listen refuses an address that others can reach, since a demo has no accounts.
func (w *demoWeb) listen(at string) error {
	address, err := net.ResolveTCPAddr("tcp", at)
	if err != nil {
		return usagef("--web %s: %w", at, err)
	}
	if !address.IP.IsLoopback() {
		return usagef("--web %s: others can reach this address, and everybody could look: it must be one of this machine",
			at)
	}
	w.listener, err = net.ListenTCP("tcp", address)
	return err
}

// Enter serves the dashboard until ctx ends, and returns when somebody has opened it.
func (w *demoWeb) Enter(ctx context.Context, url, schema string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	page, err := webui.New(webui.Config{Pool: pool, Schema: schema, Insecure: true, Refresh: demoRefresh,
		Logger: w.logger()})
	if err != nil {
		pool.Close()
		return err
	}
	opened := make(chan struct{})
	open := sync.OnceFunc(func() { close(opened) })
	handler := ownMachine(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		page.ServeHTTP(answer, r)
		open()
	}))
	w.served = make(chan error, 1)
	go func() {
		defer pool.Close()
		w.served <- httpserve.Run(ctx, w.pages(handler, webui.DefaultTimeout),
			bounded(w.listener, maxDashboardConnections))
	}()
	fmt.Fprintf(w.stderr, "txwork: the demo begins when you open its dashboard at http://%s/\n", w.listener.Addr())
	select {
	case <-opened:
		return nil
	case err := <-w.served:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stay prints the report, and returns when the demo is interrupted, which is how it is meant to end.
func (w *demoWeb) Stay(_ context.Context, r demo.Report) error {
	if err := w.print(r); err != nil {
		return err
	}
	fmt.Fprintln(w.stderr, "txwork: the dashboard stays until you press Ctrl-C")
	return <-w.served
}
