// Package sdktest runs a package's tests like a program that exports its telemetry: with the OpenTelemetry SDK's
// providers installed globally, where [workqueue.Open] finds them.
package sdktest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Tests are what a *testing.M runs.
type Tests interface{ Run() int }

// Under wraps the tests of a package for its TestMain. Their run fails if OpenTelemetry's error handler received an
// error, such as a panic that txwork contained, or if the metrics cannot be collected at the end. With -bench nothing
// is installed: benchmarks measure txwork, and a separate benchmark measures the SDK.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }
func Under(m Tests) Tests {
	flag.Parse()
	if bench := flag.Lookup("test.bench"); bench != nil && bench.Value.String() != "" {
		return m
	}
	return suite{m}
}

type suite struct{ tests Tests }

func (s suite) Run() int {
	sdk := Install()
	code := s.tests.Run()
	if err := sdk.finish(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "FAIL: under the OpenTelemetry SDK:", err)
		return 1
	}
	return code
}

// An SDK is the providers of one process and the errors that its error handler received.
type SDK struct {
	reader *metric.ManualReader
	meters *metric.MeterProvider
	spans  *trace.TracerProvider

	mu   sync.Mutex
	errs []error
}

// Install makes the SDK's providers the global ones. It is for child processes of a test, whose end is not checked.
func Install() *SDK {
	s := &SDK{reader: metric.NewManualReader()}
	s.meters = metric.NewMeterProvider(metric.WithReader(s.reader))
	s.spans = trace.NewTracerProvider(trace.WithSyncer(discard{}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(s.report))
	otel.SetMeterProvider(s.meters)
	otel.SetTracerProvider(s.spans)
	return s
}

// maxReported bounds how many errors are kept: the first ones say what is wrong.
const maxReported = 10

// Expected is contained in panics that a test provokes. Their reports are not failures.
const Expected = "a panic that its test expects"

func (s *SDK) report(err error) {
	if strings.Contains(err.Error(), Expected) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) < maxReported {
		s.errs = append(s.errs, err)
	}
}

func (s *SDK) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all metricdata.ResourceMetrics
	err := s.reader.Collect(ctx, &all)
	err = errors.Join(err, s.meters.Shutdown(ctx), s.spans.Shutdown(ctx))
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(s.errs, err)...)
}

// Untraced returns a row's headers without the trace context that every row has under the SDK, or nil if there are no
// others.
func Untraced[V any](headers map[string]V) map[string]V {
	delete(headers, "traceparent")
	if len(headers) == 0 {
		return nil
	}
	return headers
}

// discard is an exporter that drops finished spans.
type discard struct{}

func (discard) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                          { return nil }
