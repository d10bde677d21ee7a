//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	readyLimit = 2 * time.Minute       // how long a server may take to answer, including recovery
	readyPoll  = 10 * time.Millisecond // between attempts to connect
	haltLimit  = 30 * time.Second      // the supervisor itself gives up after 12 s
)

// Server is a private PostgreSQL server. Its methods may be called
// concurrently.
type Server struct {
	dir string
	url string

	mu         sync.Mutex // held during every change of state
	supervisor *supervisor
	stopped    bool
}

// live keeps every server that is not stopped reachable. Without it, a caller
// that keeps only the URL would see its server stop when the garbage collector
// closes the supervisor's pipe.
var live sync.Map

// Start creates a cluster and starts a server on it. It returns when the
// server answers, after a fraction of a second. Cancelling ctx ends the wait, not the
// server once Start has returned: call Stop for that.
func Start(ctx context.Context, o Options) (*Server, error) {
	owner, err := serverOwner()
	if err != nil {
		return nil, err
	}
	bin, err := findBinaries(ctx, o.BinDir, owner)
	if err != nil {
		return nil, err
	}
	s, err := launch(o, bin, keptCluster(ctx, bin, owner), owner)
	if err != nil {
		return nil, err
	}
	live.Store(s, struct{}{})
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// launch makes the directory and hands it to a supervisor.
func launch(o Options, bin, empty string, owner *owner) (*Server, error) {
	base := baseDir(owner, o.Durable)
	for _, dir := range append(baseDirs(false), "/tmp") {
		sweep(dir)
	}
	dir, lock, err := createDir(base, owner)
	if err != nil {
		return nil, err
	}
	// The supervisor inherits the lock and keeps it.
	defer lock.Close()

	s := &Server{dir: dir, url: socketURL(dir)}
	if err := s.writeConfig(o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.supervisor, err = startSupervisor(dir, bin, empty, owner, lock); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.supervisor.send("start"); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// URL returns a connection URL for database postgres as its superuser. pgx,
// database/sql with the pgx driver and libpq programs such as psql accept it,
// in this process and in others of the same user (or of root).
func (s *Server) URL() string { return s.url }

// Dir returns the directory that holds the cluster, the socket and the log. It
// exists until Stop.
func (s *Server) Dir() string { return s.dir }

// Crash ends the server at once: connections break, no checkpoint is written,
// and the next Restart has to recover. It returns when every process of the
// server is gone.
func (s *Server) Crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halt("crash")
}

// Restart starts the server again on the same data, under the same URL, and
// returns when it answers. A server that still runs is stopped first.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.halt("stop"); err != nil {
		return err
	}
	if err := s.supervisor.send("start"); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// halt lets the supervisor end the server, and waits until it has ended. The caller holds s.mu.
func (s *Server) halt(command string) error {
	if s.stopped {
		return errors.New("localpg: the server is stopped and its data removed; start another")
	}
	if !s.supervisor.serving {
		return nil
	}
	if err := s.supervisor.send(command); err != nil {
		return err
	}
	ended, err := s.supervisor.ended(haltLimit)
	if err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("localpg: the server in %s does not stop", s.dir)
	}
	return nil
}

// Stop stops the server, waits until it is gone and removes its directory.
// Further calls do nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	defer live.Delete(s)
	s.supervisor.close(haltLimit)
	return finish(s.dir)
}

// awaitReady returns when the server answers, or with an error if it has ended or takes too long.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		refused := s.ping(ctx)
		if refused == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return s.startError(errors.Join(err, refused))
		}
		ended, err := s.supervisor.ended(readyPoll)
		if err != nil {
			return s.startError(err)
		}
		if ended {
			return s.startError(errors.New("initdb or postgres failed"))
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (s *Server) startError(err error) error {
	return fmt.Errorf("localpg: PostgreSQL did not start: %w\nend of its log:\n%s", err, s.logTail())
}

// logTail returns the last lines of the server's log.
func (s *Server) logTail() string {
	const lines = 20
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func socketURL(dir string) string {
	query := url.Values{"host": {dir}, "port": {"5432"}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: query.Encode()}
	return u.String()
}
