//go:build unix

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// RunMember is a process of a run's crew: a worker, a reaper, or the one that creates the tables. It reads its setup
// and orders from stdin, writes reports to stdout, and stops in order when ctx is cancelled or SIGTERM arrives. When
// stdin ends the run is gone, and the process exits, whatever it is doing.
func RunMember(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	input := bufio.NewScanner(stdin)
	var s setup
	if !input.Scan() || json.Unmarshal(input.Bytes(), &s) != nil || s.URL == "" {
		return errors.New("this is a member of the crew of `go run ./proof torture`, which is to start it")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	p := newPoints(stdout)
	go p.obey(input)
	p.say(report{What: isReady})
	before := runtime.NumGoroutine()
	if err := play(ctx, s, p); err != nil {
		fmt.Fprintln(os.Stderr, err) // whoever calls this may say only that it was interrupted
		return err
	}
	return awaitGoroutines(before)
}

func play(ctx context.Context, s setup, p *pointSet) error {
	j, err := openJournal(s.Journal)
	if err != nil {
		return err
	}
	defer j.close()
	config, err := s.config(p)
	if err != nil {
		return err
	}
	if s.Role == roleSQLWorker {
		return runSQLWorker(ctx, s, config.ConnConfig, j, p)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	switch s.Role {
	case roleInstaller:
		return install(ctx, pool, s.Schema)
	case roleReaper:
		return runReaper(ctx, s, pool)
	}
	// separate from the journal of the handlers
	own, err := openJournal(strings.TrimSuffix(s.Journal, journalSuffix) + " announcer" + journalSuffix)
	if err != nil {
		return err
	}
	defer own.close()
	return runWorkers(ctx, s, pool, j, p, slog.New(announcerLog{journal: own, app: s.App}))
}

func (s setup) config(p *pointSet) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = s.PoolSize
	config.ConnConfig.RuntimeParams["application_name"] = s.App
	maps.Copy(config.ConnConfig.RuntimeParams, s.Parameters)
	if s.LoseReplies {
		loseReplies(config)
	}
	if s.Freeze != "" {
		p.cold.freeze(config, freezable[s.Freeze])
	}
	return config, nil
}

func runReaper(ctx context.Context, s setup, pool *pgxpool.Pool) error {
	d, err := openDomains(s.Schema, nil, quiet())
	if err != nil {
		return err
	}
	return reaper.Run(ctx, pool, d.tables(), reaper.Options{
		Schema: s.Schema, Interval: reapEvery, Lease: workqueue.MinLease, Logger: slog.New(slog.DiscardHandler),
	})
}

// quiet drops log messages, which the faults would fill.
func quiet() workqueue.Telemetry { return workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)} }

// stopGrace is for goroutines that were told to end but have not been scheduled yet.
const stopGrace = 5 * time.Second

// awaitGoroutines reports goroutines that an orderly stop has left behind.
func awaitGoroutines(before int) error {
	for end := time.Now().Add(stopGrace); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return nil
		}
	}
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	return fmt.Errorf("%d goroutines remain after the stop", runtime.NumGoroutine()-before)
}
