package pages

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// watcher is the name of the sessions of the dashboard that viewers look at.
const watcher = "proof viewers"

// watched are the pages that viewers look at, in turns.
var watched = []string{"/", "/queues", "/t/jobs/failed", "/", "/dead", "/keys", "/t/jobs/row/", "/schedules",
	"/maintenance", "/history"}

type viewersOptions struct {
	url     string
	rows    int
	viewers int
	rate    int
	each    time.Duration
	rounds  int
	json    bool
}

// A Viewing is what viewers cost. Its JSON names are stable. Times are seconds of processors in a second.
type Viewing struct {
	Viewers int     `json:"viewers"`
	Jobs    float64 `json:"jobs_per_second"`
	Pages   float64 `json:"pages_per_second"`
	Alone   Used    `json:"without_viewers"`
	Watched Used    `json:"with_viewers"`
	Cost    float64 `json:"cost"`                  // of viewers
	OfAll   float64 `json:"share_of_processors"`   // of what the machine has
	OfUsed  float64 `json:"share_of_what_is_used"` // of what the load takes without viewers
}

// Used is processor time.
type Used struct {
	Server   float64 `json:"server"`                // all of it
	Sessions float64 `json:"sessions_of_dashboard"` // of the server
	Web      float64 `json:"dashboard"`
	Load     float64 `json:"producers_and_workers"` // with viewers, these are in it
}

// Viewers measures what viewers cost a system at a fixed load.
func Viewers(ctx context.Context, args []string, out, progress io.Writer) (found bool, err error) {
	var o viewersOptions
	flags := flag.NewFlagSet("viewers", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.url, "database-url", "", "`URL` of a database that was filled with pages --keep")
	flags.IntVar(&o.rows, "rows", 1_000_000, "`rows` of all domains together")
	flags.IntVar(&o.viewers, "viewers", 50, "`pages` that are open")
	flags.IntVar(&o.rate, "rate", 500, "`jobs` a second")
	flags.DurationVar(&o.each, "each", time.Minute, "`time` that is measured with viewers, and without")
	flags.IntVar(&o.rounds, "rounds", 2, "`times` that both are measured")
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	d, err := prepare(ctx, o.url, o.rows, progress)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	v, err := d.view(ctx, o, progress)
	if err != nil {
		return false, err
	}
	if o.json {
		return false, json.NewEncoder(out).Encode(v)
	}
	_, err = fmt.Fprintf(out, "%d viewers, %.0f jobs/s, %.1f pages/s\n"+
		"without: server %.4f, of which for the dashboard %.4f, dashboard %.4f, producers and workers %.4f processors\n"+
		"with:    server %.4f, of which for the dashboard %.4f, dashboard %.4f processors\n"+
		"viewers cost %.4f processors: %.2f %% of the machine's, %.2f %% of what the load takes\n",
		v.Viewers, v.Jobs, v.Pages, v.Alone.Server, v.Alone.Sessions, v.Alone.Web, v.Alone.Load, v.Watched.Server,
		v.Watched.Sessions, v.Watched.Web, v.Cost, 100*v.OfAll, 100*v.OfUsed)
	return false, err
}

func (d *data) view(ctx context.Context, o viewersOptions, progress io.Writer) (v Viewing, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go d.alive(ctx)
	l, err := d.load(ctx, o.rate)
	if err != nil {
		return v, err
	}
	web, err := d.serve(ctx)
	if err != nil {
		return v, err
	}
	defer web.stop()
	v.Viewers = o.viewers
	began := time.Now()
	for round := range o.rounds {
		alone, err := d.used(ctx, o.each, web)
		if err != nil {
			return v, err
		}
		v.Alone.add(alone, o.rounds)
		watching, leave := context.WithCancel(ctx)
		var open sync.WaitGroup
		for i := range o.viewers {
			open.Go(func() { web.watch(watching, d.page(ctx, i)) })
		}
		wait(ctx, 15*time.Second) // until the pages are open
		with, err := d.used(ctx, o.each, web)
		leave()
		open.Wait()
		if err != nil {
			return v, err
		}
		v.Watched.add(with, o.rounds)
		fmt.Fprintf(progress, "viewers: round %d of %d\n", round+1, o.rounds)
	}
	v.Jobs = float64(l.done.Load()) / time.Since(began).Seconds()
	v.Pages = float64(web.asked.Load()) / (o.each + 15*time.Second).Seconds() / float64(o.rounds)
	v.Cost = v.Watched.Sessions - v.Alone.Sessions + v.Watched.Web - v.Alone.Web
	v.OfAll = v.Cost / float64(runtime.NumCPU())
	v.OfUsed = v.Cost / (v.Alone.Server + v.Alone.Web + v.Alone.Load)
	return v, l.err()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// add adds a round to the mean of several.
func (u *Used) add(one Used, rounds int) {
	n := float64(rounds)
	u.Server, u.Sessions = u.Server+one.Server/n, u.Sessions+one.Sessions/n
	u.Web, u.Load = u.Web+one.Web/n, u.Load+one.Load/n
}

// spent is processor time so far.
type spent struct{ server, sessions, web, load time.Duration }

func (d *data) spent(ctx context.Context, web *web) (s spent, err error) {
	found, err := d.Pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1", watcher)
	if err != nil {
		return s, err
	}
	pids, err := pgx.CollectRows(found, pgx.RowTo[int])
	if err != nil {
		return s, err
	}
	for _, pid := range pids {
		one, _ := measure.ProcessCPU(pid) // it may have ended
		s.sessions += one
	}
	var known, there bool
	s.server, known = measure.ServerCPU(d.Dir)
	s.web, there = measure.ProcessCPU(web.command.Process.Pid)
	s.load = measure.ClientCPU()
	if !known || !there {
		return s, errors.New("the processor time of the server or the dashboard is not known here")
	}
	return s, nil
}

// used measures the processor time for some time.
func (d *data) used(ctx context.Context, each time.Duration, web *web) (u Used, err error) {
	before, err := d.spent(ctx, web)
	if err != nil {
		return u, err
	}
	began := time.Now()
	wait(ctx, each)
	after, err := d.spent(ctx, web)
	of := func(before, after time.Duration) float64 {
		return (after - before).Seconds() / time.Since(began).Seconds()
	}
	return Used{of(before.server, after.server), of(before.sessions, after.sessions), of(before.web, after.web),
		of(before.load, after.load)}, err
}

// page is what a viewer looks at.
func (d *data) page(ctx context.Context, viewer int) string {
	path := watched[viewer%len(watched)]
	if strings.HasSuffix(path, "/row/") {
		var id string
		_ = d.Pool.QueryRow(ctx, "SELECT id::text FROM txwork.jobs WHERE failed_at IS NOT NULL OFFSET $1 LIMIT 1", viewer).Scan(&id)
		path += id
	}
	return path
}

// A load is producers that write jobs at a rate, and workers that do them.
type load struct {
	done  atomic.Int64
	mu    sync.Mutex
	first error
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = err
	}
}

func (l *load) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// work is a job that does nothing.
type work struct {
	N int `json:"n"`
}

func (work) Kind() string { return "work" }

// load writes and does so many jobs a second until ctx ends.
func (d *data) load(ctx context.Context, rate int) (*load, error) {
	l := &load{}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[work]) error {
		l.done.Add(1)
		return nil
	}, jobs.KindOptions[work]{Queue: "work"})
	client, err := jobs.Open(jobs.Options{Registry: kinds, Telemetry: quiet})
	if err != nil {
		return nil, err
	}
	worker, err := jobs.NewWorker(d.Pool, client, jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Name: "work"}}})
	if err != nil {
		return nil, err
	}
	all, err := service.New(d.Pool, service.Options{HandlersWithoutPool: true, MaintainedElsewhere: true,
		Logger: quiet.Logger}, worker)
	if err != nil {
		return nil, err
	}
	go func() { l.fail(all.Run(ctx)) }()
	go l.produce(ctx, d, client, rate)
	return l, nil
}

// produce writes jobs, each in a transaction of its own, as many as are due by the clock.
func (l *load) produce(ctx context.Context, d *data, client *jobs.Client, rate int) {
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		wait(ctx, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(rate))))
		err := workqueue.InTx(ctx, d.Pool, func(tx workqueue.Tx) error {
			_, err := client.Enqueue(ctx, tx, jobs.Insert{Args: work{n}})
			return err
		})
		if err != nil && ctx.Err() == nil {
			l.fail(err)
			return
		}
	}
}

// A web is the program that serves the dashboard.
type web struct {
	command *exec.Cmd
	url     string
	asked   atomic.Int64
	remove  func()
}

// serve starts the dashboard as a program of its own.
func (d *data) serve(ctx context.Context) (*web, error) {
	program, remove, err := build(ctx)
	if err != nil {
		return nil, err
	}
	w := &web{command: exec.Command(program, "serve", "--listen", "127.0.0.1:0"), remove: remove}
	w.command.Env = append(os.Environ(), "TXWORK_DATABASE_URL="+d.URL, "PGAPPNAME="+watcher)
	said, err := w.command.StderrPipe()
	if err == nil {
		err = w.command.Start()
	}
	if err != nil {
		remove()
		return nil, err
	}
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	if _, at, ok := strings.Cut(strings.TrimSpace(line), "http://"); ok {
		w.url = "http://" + strings.TrimSuffix(at, "/")
		return w, nil
	}
	w.stop()
	return nil, errors.Join(err, fmt.Errorf("the dashboard does not say where it is served, but %q", line))
}

func (w *web) stop() {
	_ = w.command.Process.Signal(syscall.SIGTERM)
	_ = w.command.Wait()
	w.remove()
}

// watch looks at a page as a browser does: it opens it and, if it is kept up to date, its stream, and reads the page
// again when its figures are new.
func (w *web) watch(ctx context.Context, path string) {
	for ctx.Err() == nil {
		if !w.read(ctx, path, false) {
			wait(ctx, time.Hour) // the page does not change
			return
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/live", nil)
		if err != nil {
			return
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			wait(ctx, time.Second)
			continue
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if lines.Text() == "event: figures" {
				w.read(ctx, path, true)
			}
		}
		answer.Body.Close()
	}
}

// read reads a page, and tells whether it is kept up to date.
func (w *web) read(ctx context.Context, path string, again bool) (live bool) {
	w.asked.Add(1)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return false
	}
	if again { // as the script says
		r.Header.Set("Txwork-Update", "1")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return strings.Contains(string(text), "data-live")
}
