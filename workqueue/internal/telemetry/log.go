package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Logger is the table's.
func (r *Recorder) Logger() *slog.Logger { return r.logger }

// Log logs a line. A log handler that panics does no harm.
func (r *Recorder) Log(ctx context.Context, level slog.Level, what string, more ...slog.Attr) {
	defer r.contain()
	r.logger.LogAttrs(ctx, level, what, more...)
}

// logError logs an operation that failed, or did not change all rows.
func (r *Recorder) logError(ctx context.Context, e Event) {
	var repeated *Repeated
	switch refused := slices.Concat(e.lost, e.gone); {
	case len(refused) > 0:
		r.logRows(ctx, r.logger, slog.LevelWarn, e.Operation.String()+" refused", refused, e.Rows,
			slog.Int("lost", len(e.lost)), slog.Int("gone", len(e.gone)), slog.Int("changed", e.Changed))
	case errors.Is(e.Err, context.Canceled), errors.As(e.Err, &repeated):
	default:
		// The caller gets the error, and may log it. A worker has no caller to give it to, and logs it itself.
		r.logger.LogAttrs(ctx, slog.LevelDebug, e.Operation.String()+" failed", slog.Any("error", e.Err))
	}
}

// maxLoggedIDs bounds the ids of a line about many rows.
const maxLoggedIDs = 10

// logRows logs a line about several rows. It has the ids of the first of them and, if they are known, their labels,
// each value once, separated by spaces.
func (r *Recorder) logRows(ctx context.Context, logger *slog.Logger, level slog.Level, what string,
	ids []uuid.UUID, rows Rows, more ...slog.Attr) {
	ids = ids[:min(len(ids), maxLoggedIDs)]
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	known := labelsOf(ids, rows)
	var attributes []slog.Attr
	for i, name := range r.labels {
		if known == nil || name == r.lane && logger != r.logger { // a worker's logger has its lane
			continue
		}
		var values []string
		for _, l := range known {
			if !slices.Contains(values, l[i]) {
				values = append(values, l[i])
			}
		}
		attributes = append(attributes, slog.String(name, strings.Join(values, " ")))
	}
	attributes = append(attributes, slog.String("id", strings.Join(texts, " ")))
	logger.LogAttrs(ctx, level, what, append(attributes, more...)...)
}

// labelsOf returns the labels of the rows with the ids; nil if they are not known.
func labelsOf(ids []uuid.UUID, rows Rows) (known []Labels) {
	for i := 0; rows != nil && i < rows.Len(); i++ {
		if row := rows.Row(i); row.Attempt > 0 && slices.Contains(ids, row.ID) {
			known = append(known, row.Labels)
		}
	}
	return known
}

// logAttempt logs an attempt that failed, with the first line of its error. The table has all of it.
func (r *Recorder) logAttempt(ctx context.Context, level slog.Level, what string, row Row) {
	first, _, _ := strings.Cut(row.Error, "\n")
	r.LogRow(ctx, level, what, row.Labels, row.ID, slog.Int("attempt", row.Attempt),
		slog.Int("max_attempts", row.MaxAttempts), slog.String("error", first))
}

// LogRow logs what concerns a row, with its labels and its id.
func (r *Recorder) LogRow(ctx context.Context, level slog.Level, what string, l Labels, id uuid.UUID,
	more ...slog.Attr) {
	attributes := make([]slog.Attr, len(r.labels), len(r.labels)+8)
	for i, name := range r.labels {
		attributes[i] = slog.String(name, l[i])
	}
	r.logger.LogAttrs(ctx, level, what, append(append(attributes, slog.String("id", id.String())), more...)...)
}

// LeasesLapsed reports leases that ended by the worker's own clock, because no renewal got through in time. It logs one
// line, because in an outage all leases may end at once.
func (r *Recorder) LeasesLapsed(logger *slog.Logger, rows Rows) {
	defer r.contain()
	r.add(context.Background(), r.lost, rows.Len(), series{op: Extend})
	r.logRows(context.Background(), logger, slog.LevelWarn, "leases ended without a renewal", idsOf(rows), rows,
		slog.Int("rows", rows.Len()))
}

// NotReturning reports rows whose handlers run for longer than they should, once each. Whoever looks for the process
// that holds such a row finds it by this line.
func (r *Recorder) NotReturning(logger *slog.Logger, rows Rows, process string) {
	defer r.contain()
	r.logRows(context.Background(), logger, slog.LevelWarn, "handlers run for longer than they should",
		idsOf(rows), rows, slog.Int("rows", rows.Len()), slog.String("process", process))
}

func idsOf(rows Rows) []uuid.UUID {
	ids := make([]uuid.UUID, rows.Len())
	for i := range ids {
		ids[i] = rows.Row(i).ID
	}
	return ids
}
