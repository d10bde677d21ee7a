package pages

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/webui"
)

// A Timing is how long an address or a command took.
type Timing struct {
	What    string   `json:"what"`
	Deep    bool     `json:"deep,omitempty"` // page 1,000, or the last
	P50     float64  `json:"p50_ms"`
	P99     float64  `json:"p99_ms"`
	Cold    *float64 `json:"cold_ms,omitempty"` // the first time after a restart, nothing in memory
	Reads   *reads   `json:"reads,omitempty"`   // of one time
	Problem string   `json:"problem,omitempty"` // what it said instead of showing everything
	all     []time.Duration
}

// reads are what the server read for one page, in all tables.
type reads struct {
	Entries int64 `json:"index_entries"`
	Blocks  int64 `json:"blocks"`
}

// A dashboard is one with its default configuration, for viewers.
type dashboard struct {
	server *httptest.Server
	pool   *pgxpool.Pool
	said   *said
}

// said keeps what a dashboard has logged.
type said struct {
	slog.Handler
	mu   sync.Mutex
	last string
}

func (s *said) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (s *said) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = r.Message
	r.Attrs(func(a slog.Attr) bool {
		s.last += " " + a.String()
		return true
	})
	return nil
}

// take returns what was logged last, and forgets it.
func (s *said) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last
	s.last = ""
	return last
}

// application is the name of a dashboard's sessions.
const application = "proof pages"

// dashboard serves one, with the refresh interval that it has by default if refresh is 0.
func (d *data) dashboard(ctx context.Context, refresh time.Duration) (*dashboard, error) {
	config, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = application
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	log := &said{Handler: slog.DiscardHandler}
	page, err := webui.New(webui.Config{Pool: pool, Insecure: true, Refresh: refresh, Logger: slog.New(log)})
	if err != nil {
		return nil, err
	}
	return &dashboard{httptest.NewServer(page), pool, log}, nil
}

func (b *dashboard) close() {
	b.server.Close()
	b.pool.Close()
}

// ask asks for a page, and returns how long it took.
func (b *dashboard) ask(ctx context.Context, path string) (took time.Duration, problem string, err error) {
	b.said.take()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+path, nil)
	if err != nil {
		return 0, "", err
	}
	began := time.Now()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	took = time.Since(began)
	problem = b.said.take()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		problem = strings.TrimSpace(answer.Status + " " + problem)
	}
	return took, problem, err
}

// warm asks for the overview until the figures of all tables are there, the doctor's, too.
func (b *dashboard) warm(ctx context.Context) error {
	for range 3 {
		if _, _, err := b.ask(ctx, "/"); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

// measurePages asks for each page a number of times, in turns.
func (d *data) measurePages(ctx context.Context, asks []ask, o options, progress io.Writer) (timings []Timing,
	reading float64, err error) {
	timings = make([]Timing, len(asks))
	for i, a := range asks {
		timings[i] = Timing{What: a.Path, Deep: a.Deep}
	}
	if o.reads {
		if err := d.count(ctx, timings); err != nil {
			return nil, 0, err
		}
	}
	b, err := d.dashboard(ctx, 0)
	if err != nil {
		return nil, 0, err
	}
	defer b.close()
	first, _, err := b.ask(ctx, "/") // waits for the first figures
	if err != nil {
		return nil, 0, err
	}
	if err := b.warm(ctx); err != nil {
		return nil, 0, err
	}
	for round := range o.rounds {
		for i, a := range asks {
			took, problem, err := b.ask(ctx, a.Path)
			if err != nil {
				return nil, 0, err
			}
			timings[i].all = append(timings[i].all, took)
			if problem != "" {
				timings[i].Problem = problem
			}
		}
		fmt.Fprintf(progress, "pages: round %d of %d\n", round+1, o.rounds)
	}
	sum(timings)
	return timings, measure.Milliseconds(first), nil
}

func sum(timings []Timing) {
	for i := range timings {
		if p := measure.PercentilesOf(timings[i].all); p != nil {
			timings[i].P50, timings[i].P99 = p.P50, p.P99
		}
	}
}

// count asks for each page once, and counts what the server reads for it.
func (d *data) count(ctx context.Context, timings []Timing) error {
	b, err := d.dashboard(ctx, 30*time.Second) // what is read for all viewers should not be counted often
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.warm(ctx); err != nil {
		return err
	}
	before, err := d.reads(ctx, b.pool)
	for i := range timings {
		if err != nil {
			return err
		}
		if _, timings[i].Problem, err = b.ask(ctx, timings[i].What); err != nil {
			return err
		}
		var after reads
		after, err = d.reads(ctx, b.pool)
		timings[i].Reads = &reads{after.Entries - before.Entries, after.Blocks - before.Blocks}
		before = after
	}
	return err
}

// reads returns what the server has read so far, by its statistics: sessions send theirs when they end.
func (d *data) reads(ctx context.Context, pool *pgxpool.Pool) (r reads, err error) {
	for sessions := 1; sessions > 0; {
		pool.Reset() // in each turn, since what is read for all viewers opens others
		time.Sleep(2 * time.Millisecond)
		err := d.Pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application).
			Scan(&sessions)
		if err != nil {
			return r, err
		}
	}
	err = d.Pool.QueryRow(ctx, `SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint,
		(SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))
			FROM pg_statio_user_tables)::bigint`).Scan(&r.Entries, &r.Blocks)
	return r, err
}
