package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// maxWorkerFile is far larger than any file written by hand.
const maxWorkerFile = 4 << 20

// workerOptions are the flags of worker.
type workerOptions struct {
	check bool
	json  bool
}

func newWorkerCommand(a *app) *cobra.Command {
	var o workerOptions
	cmd := newCommand("worker FILE", "Run commands and HTTP requests for messages, timers and jobs",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.BoolVar(&o.check, "check", false, "validate the file and end")
	jsonVar(flags, &o.json, "log as JSON, a line each; with --check, print the result as one JSON object on one line",
		checked{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := a.readWorkerFile(args[0])
		if o.check {
			return a.reportWorkerFile(args[0], file, err, o.json)
		}
		if err != nil {
			return err
		}
		if f := cmd.Flags().Lookup("schema"); file.Database.Schema != "" && !f.Changed {
			a.schema = file.Database.Schema
		}
		if a.databaseURL == "" {
			a.databaseURL = file.Database.URL
		}
		d, err := a.connectWith(cmd.Context(), file.configure)
		if err != nil {
			return err
		}
		defer d.close()
		return explain(newWorkerRun(a, d, file, o).run(cmd.Context()))
	}
	return cmd
}

// A workerFile is the file of a worker.
type workerFile struct{ *workerfile.File }

func (a *app) readWorkerFile(name string) (*workerFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxWorkerFile+1))
	switch {
	case err != nil:
		return nil, usageError{err}
	case len(text) > maxWorkerFile:
		return nil, usagef("%s has more than %d bytes", name, maxWorkerFile)
	}
	file, err := workerfile.Read(filepath.Base(name), text, func(name string) (string, bool) {
		text := a.getenv(name)
		return text, text != ""
	})
	if err != nil {
		return nil, usageError{err}
	}
	return &workerFile{file}, nil
}

// checked is what --check --json prints.
type checked struct {
	File     string               `json:"file"`     // file name as given
	OK       bool                 `json:"ok"`       // there are no problems
	Serves   []string             `json:"serves"`   // what the worker would serve
	Retries  []retrying           `json:"retries"`  // for how long rows are retried before they are dead letters
	Problems []workerfile.Problem `json:"problems"` // in the order of their lines
}

// retrying is for how long rows are retried whose attempts fail at once.
type retrying struct {
	What         string  `json:"what"`          // section, or handler with limits of its own, such as jobs thumbnail
	Attempts     int     `json:"attempts"`      // attempts of a row that names no number
	LeastSeconds float64 `json:"least_seconds"` // from the first attempt to the last, with as much jitter as there can be
	MostSeconds  float64 `json:"most_seconds"`  // without jitter
}

func (r retrying) String() string {
	least, most := rough(seconds(r.LeastSeconds)), rough(seconds(r.MostSeconds))
	if least != most {
		most = least + " to " + most
	}
	return fmt.Sprintf("%s: %d attempts, which last %s", r.What, r.Attempts, most)
}

// retries says for how long the rows of the file's sections and handlers are retried.
func (f *workerFile) retries() (list []retrying, err error) {
	all, err := f.Retries()
	for _, r := range all {
		list = append(list, retrying{r.What, r.Attempts, r.Least.Seconds(), r.Most.Seconds()})
	}
	return list, err
}

func (a *app) reportWorkerFile(name string, f *workerFile, err error, asJSON bool) error {
	result := checked{File: name, OK: err == nil, Serves: []string{}, Retries: []retrying{},
		Problems: []workerfile.Problem{}}
	if f != nil {
		result.Serves = f.Serves()
		result.Retries, err = f.retries()
		result.OK = err == nil
	}
	var problems *workerfile.Problems
	if errors.As(err, &problems) {
		result.Problems = problems.List
	}
	var printErr error
	switch {
	case asJSON && (err == nil || problems != nil):
		printErr = a.printJSON(result)
	case err == nil:
		_, printErr = fmt.Fprintf(a.stdout, "%s is valid: %s\n", name, joined(result.Serves))
		for _, r := range result.Retries {
			_, err := fmt.Fprintln(a.stdout, r)
			printErr = errors.Join(printErr, err)
		}
	}
	return errors.Join(err, printErr)
}

// spareConnections are the connections of a pool beyond those that inbox handlers hold.
const spareConnections = 4

// configure gives the pool one connection for each handler of an inbox that may run at once, and some spare ones,
// unless the file sets the number.
func (f *workerFile) configure(c *pgxpool.Config) {
	if n := f.Database.MaxConnections; n > 0 {
		c.MaxConns = int32(n)
		return
	}
	if f.Inbox == nil {
		return
	}
	need := spareConnections
	for _, consumer := range f.Inbox.Consumers {
		need += concurrency(consumer.Serving)
	}
	c.MaxConns = max(c.MaxConns, int32(need))
}

// concurrency returns the section's concurrency. The default is modest because each handler may be a process.
func concurrency(s workerfile.Serving) int {
	if s.Concurrency > 0 {
		return s.Concurrency
	}
	return defaultExecConcurrency
}

// probeTimeout is how long a probe and its answer may take.
const probeTimeout = 10 * time.Second

// A workerRun is one run of the command.
type workerRun struct {
	app     *app
	db      *database
	file    *workerFile
	environ []string           // what commands inherit
	stdout  io.Writer          // of all commands
	said    func(task, string) // receives the lines of their standard error
	logger  *slog.Logger
	settled settledCounter
}

func newWorkerRun(a *app, d *database, f *workerFile, o workerOptions) *workerRun {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	stderr := shared(a.stderr)
	w := &workerRun{app: a, db: d, file: f, stdout: shared(a.stdout), settled: newSettledCounter(),
		environ: inherited(os.Environ(), f.Database.Variables, d.Pool.Config().ConnConfig)}
	w.logger, w.said = slog.New(slog.NewTextHandler(stderr, options)), passLines(stderr)
	if o.json {
		w.logger = slog.New(slog.NewJSONHandler(stderr, options))
		w.said = logLines(w.logger)
	}
	if a.goLog != nil {
		a.goLog(w.logger)
	}
	return w
}

// run works until it is interrupted. If one part fails, the others are stopped.
func (w *workerRun) run(ctx context.Context) error {
	parts, err := w.parts()
	if err != nil {
		return conclude(err)
	}
	if err := w.tellRetries(); err != nil {
		return err
	}
	if err := w.makeSubscriptions(ctx); err != nil {
		return err
	}
	s, err := service.New(w.db.Pool, service.Options{
		MaintainedElsewhere: !w.file.Reaper, HandlersWithoutPool: true, Logger: w.logger,
		Reaper: reaper.Options{Schema: w.db.Schema, Interval: w.file.ReapEvery},
	}, parts...)
	if err != nil {
		return err
	}
	run := s.Run
	if w.file.Health != "" {
		if run, err = w.probed(s); err != nil {
			return err
		}
	}
	err = run(ctx)
	n := w.settled.count()
	w.logger.Info("worker stopped", "done", n.done, "retried", n.retried, "failed", n.failed)
	return err
}

// tellRetries logs for how long rows are retried, before the first one fails.
func (w *workerRun) tellRetries() error {
	all, err := w.file.Retries()
	for _, r := range all {
		w.logger.Info("retries", "what", r.What, "attempts", r.Attempts, "last_at_least", r.Least, "last_at_most",
			r.Most)
	}
	return err
}

// probed opens the address of the probes, and returns what runs the service beside them.
func (w *workerRun) probed(s *service.Service) (run func(context.Context) error, err error) {
	listener, err := net.Listen("tcp", w.file.Health)
	if err != nil {
		return nil, err
	}
	w.logger.Info("serving probes", "url", "http://"+listener.Addr().String())
	probes := &http.Server{Handler: s.Handler(), ReadTimeout: probeTimeout, WriteTimeout: probeTimeout,
		MaxHeaderBytes: 1 << 16, ErrorLog: errorLog(w.logger)}
	return func(ctx context.Context) error {
		return serveBeside(ctx, probes, bounded(listener, maxProbeConnections), s.Run)
	}, nil
}

func (w *workerRun) telemetry() workqueue.Telemetry {
	return workqueue.Telemetry{Logger: w.logger, MeterProvider: w.settled.meters()}
}
