package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/bench/results"
)

// A peer is a queue that is measured.
type peer struct {
	name    string                                  // in flags
	command func(l *Lab) []string                   // without the phase
	ready   func(ctx context.Context, l *Lab) error // builds the peer, or says why it cannot be run
	bounds  map[string]bounds                       // by profile
}

// bounds limit what is measured of a profile.
type bounds struct {
	// the most jobs of a drain or of latencies, if as many as for other peers would take long; 0: no limit
	most    int
	samples int                // likewise, but only of latencies
	without []results.Workload // workloads that the profile cannot do, although other profiles may
}

// peers are the peers in the order in which they take turns.
var peers = []peer{
	goPeer("txwork", nil, map[string]bounds{
		"cooldown": {without: busy},
		"polling":  {without: busy},
	}),
	goPeer("sql", nil, nil),
	goPeer("river", nil, map[string]bounds{"defaults": {most: 10_000, samples: 30, without: alone}}),
	goPeer("dbos", nil, map[string]bounds{
		"bench": {most: 30_000},
		// A sample takes a second. The first of several processes would take all jobs.
		"defaults": {most: 30_000, samples: 20, without: alone},
	}),
	nodePeer("graphile-worker", map[string]bounds{"bench": {without: alone}, "defaults": {most: 10_000,
		without: alone}}),
	nodePeer("pg-boss", map[string]bounds{
		"bench":    {without: alone},
		"defaults": {most: 10, without: []results.Workload{results.DrainDeleted, results.Processes}}, // one job in 2 s
	}),
	goPeer("pgq", hasExtension("pgq", "Debian's package postgresql-15-pgq3 has it"), map[string]bounds{
		"bench":    {without: ticking},
		"defaults": {without: ticking},
	}),
	goPeer("functions", nil, taking(0)),
	goPeer("pgmq", hasFile("BENCH_PGMQ_SQL", "pgmq-extension/sql/pgmq.sql of github.com/pgmq/pgmq"), taking(0)),
	// Each claim reads all unfinished tasks.
	goPeer("absurd", hasFile("BENCH_ABSURD_SQL", "sql/absurd.sql of github.com/earendil-works/absurd"), taking(10_000)),
}

// taking are the bounds of peers that are SQL functions, whose clients poll: their latency is that of the polls.
func taking(most int) map[string]bounds {
	return map[string]bounds{"one": {most: most, without: ticking}, "hundred": {most: most, without: ticking}}
}

// hasFile returns a check of whether an environment variable names a file, for SQL that is not part of this repository.
func hasFile(env, hint string) func(context.Context, *Lab) error {
	return func(context.Context, *Lab) error {
		if _, err := os.Stat(os.Getenv(env)); err != nil {
			return fmt.Errorf("set %s to the path of %s: %w", env, hint, err)
		}
		return nil
	}
}

// Workloads that some profiles do not do. Peers on Node implement only the protocol of a single process (alone). PgQ
// has one consumer at a time, and its latency is only the period of its ticks (ticking). Profiles that save costs by
// letting jobs share claims are meant for jobs that come one by one (busy).
var (
	alone = []results.Workload{results.Processes}
	busy  = []results.Workload{results.Drain, results.DrainDeleted, results.Processes, results.Enqueue,
		results.Single}
	ticking = []results.Workload{results.Processes, results.Latency}
)

// goPeer makes a peer from a main package below bench/peers.
func goPeer(name string, available func(context.Context, *Lab) error, b map[string]bounds) peer {
	return peer{
		name:    name,
		command: func(l *Lab) []string { return []string{filepath.Join(l.temp, name)} },
		ready: func(ctx context.Context, l *Lab) error {
			if err := l.hasDir("peers", name); err != nil {
				return err
			}
			if available != nil {
				if err := available(ctx, l); err != nil {
					return err
				}
			}
			return l.build(ctx, l.dir, name, name)
		},
		bounds: b,
	}
}

// build builds a peer in a directory of this module, into a program with a name. It trims paths, so that the build
// cache of another checkout can be used.
func (l *Lab) build(ctx context.Context, dir, peer, name string) error {
	return l.tool(ctx, dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(l.temp, name),
		"./peers/"+peer)
}

// A Checkout is txwork as some commit has it.
type Checkout struct {
	Name string // as a peer
	Dir  string // of the module bench
}

func (c Checkout) peer() peer {
	return peer{
		name:    c.Name,
		command: func(l *Lab) []string { return []string{filepath.Join(l.temp, c.Name)} },
		ready:   func(ctx context.Context, l *Lab) error { return l.build(ctx, c.Dir, "txwork", c.Name) },
	}
}

// nodePeer makes a peer from a JavaScript module in bench/peers/node.
func nodePeer(name string, b map[string]bounds) peer {
	return peer{
		name:    name,
		command: func(l *Lab) []string { return []string{l.node(), filepath.Join(l.nodeDir(), name+".mjs")} },
		ready: func(ctx context.Context, l *Lab) error {
			if err := l.hasDir("peers", "node"); err != nil {
				return err
			}
			return l.installNode(ctx)
		},
		bounds: b,
	}
}

func (l *Lab) nodeDir() string { return filepath.Join(l.dir, "peers", "node") }

// node returns the Node that is installed with the packages, because they may need a newer one than the machine has.
func (l *Lab) node() string {
	installed := filepath.Join(l.nodeDir(), "node_modules", ".bin", "node")
	if _, err := os.Stat(installed); err == nil {
		return installed
	}
	return "node"
}

// installNode installs the packages of all Node peers, once.
func (l *Lab) installNode(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(l.nodeDir(), "node_modules")); err == nil {
		return nil
	}
	return l.tool(ctx, l.nodeDir(), "npm", "ci", "--no-audit", "--no-fund")
}

// hasExtension returns a check of whether the server can create an extension.
func hasExtension(name, hint string) func(context.Context, *Lab) error {
	return func(ctx context.Context, l *Lab) error {
		conn, err := pgx.Connect(ctx, l.server.URL())
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		var found bool
		const available = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)"
		if err := conn.QueryRow(ctx, available, name).Scan(&found); err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("the server has no extension %s: %s", name, hint)
		}
		return nil
	}
}

func (l *Lab) hasDir(elements ...string) error {
	dir := filepath.Join(append([]string{l.dir}, elements...)...)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New(dir + " is no directory")
	}
	return err
}

// tool runs a command of the machine. Its output is only reported if it fails.
func (l *Lab) tool(ctx context.Context, dir, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}
