// Command pgq is the peer PgQ: its SQL functions, called from one Go process. See bench/README.md for what a peer's
// process does. The server needs the extension, on Debian the package postgresql-15-pgq3. PgQ's daemon pgqd is not
// needed, because this process calls ticker() itself.
//
// PgQ is only compared in throughput. It gives a consumer all events between two ticks as one batch, which is
// acknowledged as a whole, so a single job has neither a state nor a lease. Acknowledged events stay in their table
// until it is rotated.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A config is the value of BENCH_CONFIG.
type config struct {
	DatabaseURL  string  `json:"database_url"`
	Profile      string  `json:"profile"`
	Deleted      bool    `json:"deleted"`
	Jobs         int     `json:"jobs"`
	PayloadBytes int     `json:"payload_bytes"`
	Batch        int     `json:"batch"`
	Connections  int     `json:"connections"`
	Seconds      float64 `json:"seconds"`
}

var phases = map[string]func(context.Context, config) error{
	"describe": describe,
	"prepare":  prepare,
	"fill":     fill,
	"work":     work,
	"single":   single,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv("BENCH_CONFIG")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, env string) error {
	if len(args) != 1 || phases[args[0]] == nil {
		return errors.New("usage: pgq describe|prepare|fill|work|single; latency is not measured of PgQ")
	}
	var c config
	if err := json.Unmarshal([]byte(env), &c); err != nil {
		return fmt.Errorf("BENCH_CONFIG: %w", err)
	}
	return phases[args[0]](ctx, c)
}

// untilClosed returns a context that also ends when standard input is closed.
func untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return ctx, stop
}

// say prints an event.
func say(event map[string]any) error {
	return json.NewEncoder(os.Stdout).Encode(event)
}
