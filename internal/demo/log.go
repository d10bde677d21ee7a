package demo

import (
	"context"
	"errors"
	"io"
	"log/slog"
)

// quiet logs failures only: what is ordinary in the demo, lost leases among it, is told in other words.
func quiet(w io.Writer) *slog.Logger {
	return slog.New(unhurried{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError})})
}

// unhurried drops timeouts: a process that was frozen finds that all of its have passed. A database that
// is really gone shows otherwise, and so does a demo in which nothing moves.
type unhurried struct{ slog.Handler }

func (h unhurried) Handle(ctx context.Context, r slog.Record) error {
	timeout := false
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		timeout = ok && errors.Is(err, context.DeadlineExceeded)
		return !timeout
	})
	if timeout {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h unhurried) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unhurried{h.Handler.WithAttrs(attrs)}
}

func (h unhurried) WithGroup(name string) slog.Handler { return unhurried{h.Handler.WithGroup(name)} }
