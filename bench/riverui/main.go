// Command riverui measures how long the pages of River UI take on many finished jobs, for comparison with
//
//	go run ./proof pages
//
// It fills a private server with the same settings: 97 % of the jobs are completed, 2 % discarded, and 1 % available.
// River UI is one page that asks an API for what it shows; what is measured is these requests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"riverqueue.com/riverui"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/measure"
)

func main() {
	rows := flag.Int("rows", 1_000_000, "`jobs`")
	rounds := flag.Int("rounds", 100, "`times` that each page is asked for")
	flag.Parse()
	if err := run(context.Background(), *rows, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "riverui:", err)
		os.Exit(1)
	}
}

// fill has a job for each number, from a week ago to now.
const fill = `INSERT INTO river_job (state, args, attempt, attempted_at, attempted_by, created_at, finalized_at, kind, max_attempts,
	queue, scheduled_at, errors)
SELECT (CASE WHEN n % 100 = 0 THEN 'available' WHEN n % 50 = 1 THEN 'discarded' ELSE 'completed' END)::river_job_state,
	jsonb_build_object('order', n, 'amount', '9.00', 'currency', 'EUR'), CASE WHEN n % 100 = 0 THEN 0 ELSE 1 END, at, ARRAY['host-1'], at,
	CASE WHEN n % 100 <> 0 THEN at + interval '2 seconds' END, 'kind-' || floor(60 * power(random(), 2)), 25,
	'queue-' || floor(20 * power(random(), 2)), at,
	CASE WHEN n % 50 = 1 THEN ARRAY[jsonb_build_object('at', at, 'attempt', 1, 'error', 'card is declined', 'trace', '')] END
FROM generate_series(1, $1::bigint) AS n, LATERAL (SELECT now() - ($1::bigint - n + 2) * interval '7 days' / $1::bigint AS at) AS x`

func run(ctx context.Context, rows, rounds int) (err error) {
	server, err := localpg.Start(ctx, localpg.Options{Durable: true, Settings: map[string]string{"fsync": "off",
		"full_page_writes": "off", "max_wal_size": "4GB", "shared_buffers": measure.Settings["shared_buffers"],
		"maintenance_work_mem": "256MB"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return err
	}
	defer pool.Close()
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, fill, rows); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, `INSERT INTO river_queue (name, created_at, updated_at)
		SELECT DISTINCT queue, now(), now() FROM river_job`); err != nil {
		return err
	}
	for _, text := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := pool.Exec(ctx, text); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "riverui: %d jobs are filled in\n", rows)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet})
	if err != nil {
		return err
	}
	ui, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: quiet})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := ui.Start(ctx); err != nil {
		return err
	}
	page := httptest.NewServer(ui)
	defer page.Close()
	for _, path := range []string{"/api/jobs?limit=20&state=completed", "/api/jobs?limit=200&state=completed",
		"/api/jobs?limit=20&state=discarded", "/api/jobs?limit=20&state=available", "/api/jobs?limit=20&state=running",
		"/api/jobs?limit=20&state=completed&kinds=kind-0", "/api/jobs?limit=20&state=completed&kinds=kind-59",
		"/api/jobs?limit=20&state=completed&kinds=nothing", "/api/jobs?limit=20&state=completed&queues=queue-19",
		"/api/jobs?limit=20&state=discarded&queues=queue-19", fmt.Sprintf("/api/jobs/%d", rows/2), "/api/queues?limit=20",
		"/api/queues/queue-0", "/api/states"} {
		if err := ask(page.URL, path, rounds); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for a path a number of times, and prints how long it took.
func ask(url, path string, rounds int) error {
	var all []time.Duration
	for range rounds {
		began := time.Now()
		answer, err := http.Get(url + path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			return errors.Join(err, fmt.Errorf("%s: %s", path, answer.Status))
		}
		all = append(all, time.Since(began))
	}
	p := measure.PercentilesOf(all)
	_, err := fmt.Printf("%9.1f ms %9.1f ms (p99)  %s\n", p.P50, p.P99, path)
	return err
}
