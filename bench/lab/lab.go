package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/measure"
)

// A Lab is a private server and the programs of the peers.
type Lab struct {
	options results.Options
	server  *localpg.Server
	dir     string // the directory of this module
	temp    string // the directory of the built programs
	slow    time.Duration
	count   int // number of databases so far
}

// Open starts a server from the binaries in a directory, or from those that are found if it is empty. Each flush of the
// server takes longer by slow.
func Open(ctx context.Context, o results.Options, binaries string, slow time.Duration) (*Lab, error) {
	l := &Lab{options: o, slow: slow}
	if err := l.open(ctx, binaries); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context, binaries string) (err error) {
	if l.dir, err = Dir(ctx); err != nil {
		return err
	}
	if l.temp, err = os.MkdirTemp("", "txwork-peers-"); err != nil {
		return err
	}
	if l.slow > 0 {
		undo, slowErr := l.slowDisk(ctx, l.slow)
		if slowErr != nil {
			return slowErr
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	l.server, err = measure.Start(ctx, nil, binaries)
	return err
}

// Close stops the server and removes the programs.
func (l *Lab) Close() error {
	var errs []error
	if l.server != nil {
		errs = append(errs, l.server.Stop())
	}
	if l.temp != "" {
		errs = append(errs, os.RemoveAll(l.temp))
	}
	return errors.Join(errs...)
}

// Dir is the directory of this module, with the peers below it.
func Dir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/txwork/txwork/bench").Output()
	if err != nil {
		return "", fmt.Errorf("run this in a checkout of txwork: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// header describes the conditions of the measurements.
func (l *Lab) header(ctx context.Context) (h results.Header, err error) {
	conn, err := pgx.Connect(ctx, l.server.URL())
	if err != nil {
		return h, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	h = results.Header{Commit: l.commit(ctx), CPUs: runtime.NumCPU(), Options: l.options}
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&h.Postgres); err != nil {
		return h, err
	}
	h.Postgres, _, _ = strings.Cut(h.Postgres, " ") // without what the distribution adds
	h.Settings, err = show(ctx, conn, append(slices.Collect(maps.Keys(measure.Settings)), "fsync", "full_page_writes"))
	if l.slow > 0 {
		h.Settings += fmt.Sprintf(", flushes that take %v longer", l.slow)
	}
	return h, err
}

// show reads settings from the server, because only it knows their effective values.
func show(ctx context.Context, conn *pgx.Conn, names []string) (string, error) {
	slices.Sort(names)
	for i, name := range names {
		var value string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return "", err
		}
		names[i] = name + " = " + value
	}
	return strings.Join(names, ", "), nil
}

// commit returns the commit of the checkout, as far as it is known.
func (l *Lab) commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "-C", l.dir, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// URL returns the URL of the server.
func (l *Lab) URL() string { return l.server.URL() }
