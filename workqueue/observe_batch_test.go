package workqueue_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/workqueue"
)

// Each call of a batch handler has one span, linked to the producers of its rows. Metrics count each row once, also if
// it was in several calls.
func TestTelemetryOfABatch(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil), spec: func(s *workqueue.Spec) {
		s.Retry, s.Labels = never, []string{"topic"}
	}})
	var producers []trace.SpanID
	for _, topic := range []string{"good", "good", "good", "poison"} {
		ctx, app := s.tracers.Tracer("app").Start(t.Context(), "app request")
		if err := pgx.BeginFunc(ctx, r.Eyes, func(tx pgx.Tx) error {
			_, err := r.Table.Insert(ctx, workqueue.Pgx(tx), workqueue.NewRow{Values: []any{topic, ""}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		app.End()
	}
	for _, span := range s.named("enqueue") {
		producers = append(producers, span.SpanContext().SpanID(), span.Parent().SpanID())
	}
	var inHandler []trace.SpanID
	r.drainBatches(workqueue.BatchOptions{}, func(ctx context.Context, b []*noteClaim) ([]error, error) {
		inHandler = append(inHandler, trace.SpanContextFromContext(ctx).SpanID())
		if slices.ContainsFunc(b, func(c *noteClaim) bool { return c.Body.Topic == "poison" }) {
			return nil, errors.New("poison")
		}
		return nil, nil
	})
	var sizes []int64
	var failed, labelled []bool
	var ids []trace.SpanID
	for _, span := range s.named("process") {
		if ids = append(ids, span.SpanContext().SpanID()); span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("a span of kind %v", span.SpanKind())
		}
		one := false
		for _, a := range span.Attributes() {
			if a.Key == "messaging.batch.message_count" {
				sizes = append(sizes, a.Value.AsInt64())
			}
			one = one || a.Key == "txwork.topic"
		}
		labelled = append(labelled, one)
		failed = append(failed, span.Status().Code == codes.Error)
		if len(span.Links()) != int(sizes[len(sizes)-1]) {
			t.Errorf("%d links of %d rows", len(span.Links()), sizes[len(sizes)-1])
		}
		for _, link := range span.Links() {
			if !slices.Contains(producers, link.SpanContext.SpanID()) {
				t.Error("a link to no producer")
			}
		}
	}
	if !slices.Equal(ids, inHandler) {
		t.Errorf("the handler ran in the spans %v, want %v", inHandler, ids)
	}
	if !slices.Equal(sizes, []int64{4, 2, 2, 1, 1}) || !slices.Equal(failed, []bool{true, false, true, false, true}) {
		t.Errorf("spans of %d rows, failed: %v", sizes, failed)
	}
	if !slices.Equal(labelled, []bool{false, true, false, true, true}) {
		t.Errorf("spans with the topic of all rows: %v", labelled)
	}
	want := map[string]int64{"": 3, "*errors.errorString": 1}
	if got := s.sums(t, "messaging.process.duration", "error.type"); !maps.Equal(got, want) {
		t.Errorf("durations of %v, want %v", got, want)
	}
}
