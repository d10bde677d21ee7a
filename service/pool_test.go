package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/service"
)

// A service whose handlers may have to wait for connections of the pool says so once, at its start, and otherwise
// nothing.
func TestASmallPoolIsSaidAtTheStart(t *testing.T) {
	t.Parallel()
	const none, may, must = "", "level=INFO msg=\"handlers that use the pool may wait",
		"level=WARN msg=\"the pool is too small: inbox handlers"
	for name, c := range map[string]struct {
		connections int32
		options     service.Options
		parts       func(*world) []service.Part
		want        string
		handlers    string
	}{
		"a relay":                    {19, service.Options{}, relayOf, may, "handlers=20"},
		"a relay, large enough":      {20, service.Options{}, relayOf, none, ""},
		"a relay that leaves it":     {4, service.Options{HandlersWithoutPool: true}, relayOf, none, ""},
		"a consumer":                 {19, service.Options{}, consumerOf, must, "handlers=20"},
		"a consumer, large enough":   {20, service.Options{}, consumerOf, none, ""},
		"a consumer that may not":    {19, service.Options{HandlersWithoutPool: true}, consumerOf, must, "handlers=20"},
		"both, enough for the inbox": {20, service.Options{}, bothOf, may, "handlers=40"},
		"both, enough":               {40, service.Options{}, bothOf, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pgtest.WithPool(func(p *pgxpool.Config) { p.MaxConns = c.connections }))
			c.options.Logger = w.logger()
			s, err := service.New(w.db.Pool, c.options, c.parts(w)...)
			w.ok(err)
			stop := w.start(s)
			w.eventually("the start", func() bool { return strings.Contains(w.logs.String(), "reaper leads") })
			w.ok(stop())
			said := ""
			for line := range strings.Lines(w.logs.String()) {
				if strings.Contains(line, "remedy=") {
					said += line
				}
			}
			numbers := fmt.Sprintf("%s or more; it has %d", strings.TrimPrefix(c.handlers, "handlers="), c.connections)
			if (said == "") != (c.want == none) || !strings.Contains(said, c.want) ||
				!strings.Contains(said, c.handlers) || said != "" && !strings.Contains(said, numbers) ||
				strings.Count(said, "\n") > 1 {
				t.Errorf("said %q, want %q with %s", said, c.want, c.handlers)
			}
		})
	}
}

func relayOf(w *world) []service.Part    { return []service.Part{w.relay} }
func consumerOf(w *world) []service.Part { return []service.Part{w.consumer} }
func bothOf(w *world) []service.Part     { return []service.Part{w.relay, w.consumer} }
