package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestTheHandlersSpanIsLinkedToTheProducers(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f := newOutbox(t, func(o *outbox.Options) { o.Telemetry.TracerProvider = provider })
	inHandler := make(chan trace.SpanContext, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, _ *outbox.Delivery) error {
			inHandler <- trace.SpanContextFromContext(ctx)
			return nil
		})
	})

	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	f.inTx(func(tx pgx.Tx) error {
		_, err := f.box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "a",
			Headers: map[string]string{"own": "header"}})
		return err
	})
	request.End()
	seen := receive(t, inHandler)

	var send, process sdktrace.ReadOnlySpan
	f.until("the handler's span has ended", func() bool {
		for _, s := range spans.Ended() {
			switch s.SpanKind() {
			case trace.SpanKindProducer:
				send = s
			case trace.SpanKindConsumer:
				process = s
			}
		}
		return process != nil
	})
	switch links := process.Links(); {
	case send == nil || send.Parent().SpanID() != request.SpanContext().SpanID():
		t.Errorf("the producer's span %v is no child of the request", send)
	case len(links) != 1 || links[0].SpanContext.SpanID() != send.SpanContext().SpanID() ||
		links[0].SpanContext.TraceID() != send.SpanContext().TraceID():
		t.Errorf("links are %v, want one to the producer %v", links, send.SpanContext())
	case process.SpanContext().TraceID() == send.SpanContext().TraceID():
		t.Error("the handler's span is in the producer's trace: want a link only")
	case seen.SpanID() != process.SpanContext().SpanID():
		t.Error("the handler's context carries another span")
	}
}

func TestTheTraceTravelsInTheHeaders(t *testing.T) {
	t.Parallel()
	for storage, open := range map[outbox.Storage]func(*testing.T, ...func(*outbox.Options)) *fixture{
		outbox.Rows: newOutbox, outbox.Log: newLog,
	} {
		t.Run(storage.String(), func(t *testing.T) {
			t.Parallel()
			provider := sdktrace.NewTracerProvider()
			f := open(t, func(o *outbox.Options) { o.Telemetry.TracerProvider = provider })
			f.expectTraces(provider)
		})
	}
}

func (f *fixture) expectTraces(provider trace.TracerProvider) {
	f.Helper()
	const own = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	f.inTx(func(tx pgx.Tx) error {
		ctx, span := provider.Tracer("test").Start(f.Context(), "request")
		defer span.End()
		enqueued, err := f.box.EnqueueMany(ctx, workqueue.Pgx(tx),
			outbox.Message{Topic: "a", Headers: map[string]string{"own": "header"}},
			outbox.Message{Topic: "a", Headers: map[string]string{"traceparent": own}},
		)
		if err != nil {
			return err
		}
		for i, id := range workqueue.IDs(enqueued) {
			var headers map[string]string
			if err := tx.QueryRow(ctx, "SELECT headers FROM "+f.table+" WHERE id = $1", id).Scan(&headers); err != nil {
				return err
			}
			switch parent := headers["traceparent"]; {
			case i == 0 && (headers["own"] != "header" || parent == ""):
				f.Errorf("headers are %v, want the trace beside the message's own", headers)
			case i == 1 && parent != own:
				f.Errorf("traceparent is %s, want the message's own", parent)
			}
		}
		return nil
	})
}

// So is that of a message of a log. Its labels name the subscription.
func TestTheHandlersSpanIsLinkedToTheProducerOfALog(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f := newLog(t, func(o *outbox.Options) { o.Telemetry.TracerProvider = provider })
	f.subscribe("billing", 1)
	f.enqueue(outbox.Message{Topic: "a"})
	f.subscriber("billing", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	})
	var send, process sdktrace.ReadOnlySpan
	f.until("the handler's span has ended", func() bool {
		for _, s := range spans.Ended() {
			switch s.SpanKind() {
			case trace.SpanKindProducer:
				send = s
			case trace.SpanKindConsumer:
				process = s
			}
		}
		return process != nil
	})
	links := process.Links()
	if send == nil || len(links) != 1 || links[0].SpanContext.SpanID() != send.SpanContext().SpanID() {
		t.Errorf("links are %v, want one to the producer %v", links, send)
	}
	if want := "process " + f.DB.Schema + ".outbox_log"; process.Name() != want {
		t.Errorf("the span is %q, want %q", process.Name(), want)
	}
	labels := fmt.Sprint(process.Attributes())
	if !strings.Contains(labels, "billing") {
		t.Errorf("the labels are %s", labels)
	}
}
