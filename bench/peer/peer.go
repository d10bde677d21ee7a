package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/txwork/txwork/bench/protocol"
)

// A Peer is a queue that is measured.
type Peer struct {
	// Describe describes the peer in the mode of a config.
	Describe func(protocol.Config) protocol.Description
	// Prepare creates its tables. It may be called again.
	Prepare func(context.Context, protocol.Config) error
	// Open prepares it for writing and working.
	Open func(context.Context, protocol.Config) (Session, error)
}

// A Session is a peer in use. Its methods may be called concurrently.
type Session interface {
	// InsertMany writes jobs with the peer's fastest call, in one transaction.
	InsertMany(ctx context.Context, bodies []protocol.Body) error
	// InsertOne writes one job in a transaction of its own.
	InsertOne(ctx context.Context, body protocol.Body) error
	// Work runs jobs until ctx ends, and returns nil then. It calls handled at the start of each job's handler.
	Work(ctx context.Context, handled func()) error
	Close()
}

// Main is the main function of a peer's process.
func Main(p Peer) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p, os.Args[1:], os.Getenv(protocol.ConfigEnv), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p Peer, args []string, env string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: PEER describe|prepare|fill|work|latency|single|pace, see bench/README.md")
	}
	config, err := protocol.ParseConfig(env)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	r := &runner{peer: p, config: config, out: stdout}
	return r.phase(ctx, protocol.Phase(args[0]))
}

// A runner does one phase.
type runner struct {
	peer   Peer
	config protocol.Config

	mu  sync.Mutex
	out io.Writer
}

func (r *runner) say(e protocol.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.Write(r.out)
}

func (r *runner) phase(ctx context.Context, phase protocol.Phase) error {
	switch phase {
	case protocol.Describe:
		return r.say(protocol.Event{Kind: protocol.Described, Description: r.peer.Describe(r.config)})
	case protocol.Prepare:
		return r.peer.Prepare(ctx, r.config)
	}
	do, found := map[protocol.Phase]func(context.Context, Session) error{
		protocol.Fill:    r.fill,
		protocol.Work:    r.work,
		protocol.Latency: r.latency,
		protocol.Single:  r.single,
		protocol.Pace:    r.pace,
	}[phase]
	if !found {
		return fmt.Errorf("there is no phase %q", phase)
	}
	session, err := r.peer.Open(ctx, r.config)
	if err != nil && phase == protocol.Work && ctx.Err() != nil {
		return nil // the other processes did all jobs before this one was ready
	}
	if err != nil {
		return err
	}
	defer session.Close()
	return do(ctx, session)
}

// ModuleVersion returns the version of a module in this program.
func ModuleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "devel"
}
