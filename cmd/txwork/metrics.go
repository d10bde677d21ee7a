package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/httpserve"
	"github.com/txwork/txwork/reaper"
)

// defaultMetricsListen accepts connections from this machine only, at the usual port of OpenTelemetry's Prometheus
// exporters.
const defaultMetricsListen = "127.0.0.1:9464"

func newMetricsCommand(a *app) *cobra.Command {
	return newGroup("metrics", "Export the state of the queues as metrics", newMetricsServeCommand(a))
}

func newMetricsServeCommand(a *app) *cobra.Command {
	var listen string
	var o reaper.GaugeOptions
	cmd := newCommand("serve", "Serve gauges of the queues to Prometheus", noArguments)
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", defaultMetricsListen, "the `address` to serve at; there is no authentication")
	flags.DurationVar(&o.Timeout, "timeout", reaper.DefaultObservationTimeout,
		"how long an observation may take; txwork_observation_skipped counts what was not observed")
	flags.DurationVar(&o.StatementTimeout, "statement-timeout", reaper.DefaultGaugeStatementTimeout,
		"how long each statement may take")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Schema = a.schema
		o.Logger = a.logger()
		if o.Timeout <= 0 {
			return usagef("--timeout is %v, it must be positive", o.Timeout)
		}
		if err := o.Validate(); err != nil {
			return usageError{err}
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			return a.serveMetrics(cmd.Context(), d, listen, o)
		})
	}
	return cmd
}

// serveMetrics serves until ctx ends.
func (a *app) serveMetrics(ctx context.Context, d *database, listen string, o reaper.GaugeOptions) error {
	e, err := exporter.New(d.Pool, o)
	if err != nil {
		return err
	}
	defer e.Close()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stderr, "txwork: serving metrics on http://%s/metrics\n", listener.Addr()); err != nil {
		listener.Close()
		return err
	}
	return httpserve.Run(ctx, a.pages(e, o.Timeout), bounded(listener, maxProbeConnections))
}
