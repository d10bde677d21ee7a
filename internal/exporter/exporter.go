// Package exporter serves the gauges of a schema in Prometheus' text format, for deployments without an OpenTelemetry
// SDK.
//
// The format of gauges takes a few lines of code, while Prometheus' own libraries would add most of the entries to the
// go.sum of the library's users. The module in deploy compares names and text with those libraries.
package exporter

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/reaper"
)

// An Exporter answers GET /metrics. Concurrent scrapes share one observation of the database.
type Exporter struct {
	mux      *http.ServeMux
	reader   *metric.ManualReader
	provider *metric.MeterProvider
	stop     func()
}

// New makes an exporter of the gauges of a schema. It sets the options' MeterProvider to its own.
func New(pool *pgxpool.Pool, o reaper.GaugeOptions) (*Exporter, error) {
	e := &Exporter{mux: http.NewServeMux(), reader: metric.NewManualReader()}
	e.provider = metric.NewMeterProvider(metric.WithReader(e.reader))
	o.MeterProvider = e.provider
	var err error
	if e.stop, err = reaper.RegisterGauges(pool, o); err != nil {
		return nil, errors.Join(err, e.provider.Shutdown(context.Background()))
	}
	e.mux.HandleFunc("GET /metrics", e.scrape)
	return e, nil
}

// ServeHTTP answers one request.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.mux.ServeHTTP(w, r) }

// scrape takes at most as long as an observation may.
func (e *Exporter) scrape(w http.ResponseWriter, r *http.Request) {
	var all metricdata.ResourceMetrics
	if err := e.reader.Collect(r.Context(), &all); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var text bytes.Buffer
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if gauge, is := m.Data.(metricdata.Gauge[float64]); is {
				writeGauge(&text, m, gauge.DataPoints)
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text.Bytes())
}

// Close ends the exporter. The pool stays open.
func (e *Exporter) Close() error {
	e.stop()
	return e.provider.Shutdown(context.Background())
}
