package main

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A settledCounter counts what the database took, from the metric of the tables: a handler's result is only what is
// asked for. The last attempt of a row becomes a dead letter, a settle may be refused, and a lease may be lost.
type settledCounter struct {
	reader   *sdk.ManualReader
	provider *sdk.MeterProvider
}

// settled are rows by what became of them.
type settled struct{ done, retried, failed int64 }

const settledMetric = "txwork.settled"

func newSettledCounter() settledCounter {
	reader := sdk.NewManualReader()
	return settledCounter{reader, sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithView(onlySettled))}
}

// onlySettled drops all other metrics, and the labels, of which there may be too many.
func onlySettled(i sdk.Instrument) (sdk.Stream, bool) {
	s := sdk.Stream{Name: i.Name, Description: i.Description, Unit: i.Unit, Aggregation: sdk.AggregationDrop{}}
	if i.Name == settledMetric {
		s.Aggregation, s.AttributeFilter = nil, attribute.NewAllowKeysFilter(outcomeLabel)
	}
	return s, true
}

const outcomeLabel = "txwork.outcome"

// meters is what a table's Telemetry takes.
func (c settledCounter) meters() metric.MeterProvider { return c.provider }

// count returns the rows so far. Those that were put back or cancelled are none of them.
func (c settledCounter) count() (n settled) {
	var all metricdata.ResourceMetrics
	if c.reader.Collect(context.Background(), &all) != nil {
		return n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, _ := m.Data.(metricdata.Sum[int64])
			for _, point := range sum.DataPoints {
				outcome, _ := point.Attributes.Value(outcomeLabel)
				switch outcome.AsString() {
				case "ack":
					n.done += point.Value
				case "abandon":
					n.retried += point.Value
				case "fail", "exhausted":
					n.failed += point.Value
				}
			}
		}
	}
	return n
}

// A toldCounter counts what handlers said of the messages of a subscription: the log counts none when they are settled.
type toldCounter struct{ done, retried atomic.Int64 }

// counted counts the results of a handler. What it gives up for good is counted when it becomes a dead letter.
func (c *toldCounter) counted(next outbox.Handler) outbox.Handler {
	return func(ctx context.Context, m *outbox.Delivery) error {
		err := next(ctx, m)
		var o *workqueue.Outcome
		switch errors.As(err, &o); {
		case err == nil:
			c.done.Add(1)
		case ctx.Err() == nil && (o == nil || !o.IsPermanent() && !o.IsUnavailable()):
			c.retried.Add(1)
		}
		return err
	}
}
