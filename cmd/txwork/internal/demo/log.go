package demo

import (
	"context"
	"errors"
	"io"
	"log/slog"
)

// quiet logs errors only. Events that the demo provokes, such as lost leases, are reported by the display.
func quiet(w io.Writer) *slog.Logger {
	return slog.New(unhurried{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError})})
}

// unhurried drops timeouts, because a frozen process finds all its timeouts expired when it continues. A database that
// is really gone causes other errors too, and a demo that makes no progress is noticed by watch.
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
