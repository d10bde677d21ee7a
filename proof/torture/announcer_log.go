//go:build unix

package torture

import (
	"context"
	"log/slog"
	"strings"
)

// An announcerLog is a log handler that writes records about announcers to a journal and drops all others.
type announcerLog struct {
	journal *journal
	app     string
	table   string
}

// announcerSays maps log messages about announcers to the lines of the journal.
var announcerSays = map[string]string{"announcer awake": lineAwake, "announcer failed": lineBroke}

// Enabled implements slog.Handler.
func (announcerLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (a announcerLog) Handle(_ context.Context, r slog.Record) error {
	if what := announcerSays[r.Message]; what != "" {
		a.journal.append(line{What: what, App: a.app, Table: a.table})
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (a announcerLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, attr := range attrs {
		if attr.Key == "table" {
			_, a.table, _ = strings.Cut(attr.Value.String(), ".")
		}
	}
	return a
}

// WithGroup implements slog.Handler.
func (a announcerLog) WithGroup(string) slog.Handler { return a }
