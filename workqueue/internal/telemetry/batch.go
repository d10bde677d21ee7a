package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A BatchHandling is a call of a batch's handler that is under way.
type BatchHandling struct {
	Handling
	rows Rows
}

// HandleBatch begins a call of a batch's handler, with one span, which is linked to the producers of all rows.
func (r *Recorder) HandleBatch(ctx context.Context, rows Rows, start time.Time) (context.Context, BatchHandling) {
	h := BatchHandling{Handling{r, ctx, noSpan, rows.Row(0), start}, rows}
	h.begin()
	return h.ctx, h
}

func (h *BatchHandling) begin() {
	r := h.recorder
	defer r.contain()
	if !r.traces.Load() {
		return
	}
	h.ctx, h.span = r.begin(h.ctx, process, trace.WithLinks(producerLinks(h.rows)...))
	if h.span.IsRecording() {
		h.span.SetAttributes(attribute.Int("messaging.batch.message_count", h.rows.Len()))
		h.span.SetAttributes(h.shared()...)
	}
}

// shared are the labels that all rows have in common.
func (h *BatchHandling) shared() (attributes []attribute.KeyValue) {
	first := h.rows.Row(0).Labels
	for at, label := range h.recorder.attributes(first) {
		same := true
		for i := range h.rows.Len() {
			same = same && h.rows.Row(i).Labels[at] == first[at]
		}
		if same {
			attributes = append(attributes, label)
		}
	}
	return attributes
}

// Waited records for how long a row could have been claimed before its batch began.
func (r *Recorder) Waited(ctx context.Context, l Labels, delay time.Duration) {
	defer r.contain()
	if r.delay.Enabled(ctx) {
		r.delay.Record(ctx, max(delay, 0).Seconds(), r.with(series{op: process, labels: l}).record...)
	}
}

// End ends the call, and tells of each row how it ended: none if the call says nothing about single rows.
func (h *BatchHandling) End(handled []Handled, failure Handled) {
	defer h.recorder.contain()
	failed := 0
	for i, e := range handled {
		one := Handling{h.recorder, h.ctx, noSpan, h.rows.Row(i), h.start}
		one.End(e)
		if e.Failed {
			failed++
		}
	}
	switch {
	case failure.Failed:
		h.fail(failure)
	case failed > 0:
		h.span.SetStatus(codes.Error, fmt.Sprintf("%d of %d failed", failed, len(handled)))
	}
	h.span.End()
}

// LogBatch logs what concerns the rows of a batch, with the first line of an error.
func (r *Recorder) LogBatch(ctx context.Context, logger *slog.Logger, level slog.Level, what string, rows Rows,
	cause string) {
	defer r.contain()
	first, _, _ := strings.Cut(cause, "\n")
	r.logRows(ctx, logger, level, what, idsOf(rows), rows, slog.Int("rows", rows.Len()), slog.String("error", first))
}
