package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// A LoadRequest describes loads: jobs at a rate, in a number of queues, with a worker beside the producers.
type LoadRequest struct {
	Options  results.Options
	Peers    []string  // names, or name:profile; empty for all that can be run here
	Skip     bool      // leave out those of Peers that cannot be run here
	Rates    []float64 // jobs a second; 0: none
	Queues   []int     // number of queues that are served; 0: the default queue of the peer
	Rounds   int
	Binaries string        // directory of PostgreSQL's binaries; "" for those that are found
	SlowDisk time.Duration // additional time of each flush
	Progress Progress
}

// A Load is what one peer did under one load.
type Load struct {
	Entrant results.Entrant
	Rate    float64
	Queues  int

	PerSecond    float64 // jobs done a second
	ServerCPU    float64 // microseconds a second, of all of PostgreSQL's processes; 0 where it is not known
	ClientCPU    float64 // microseconds a second, of the peer's process, producers included
	Connections  int     // the most at once, the producers' pool included
	Transactions float64 // a second
}

// RunLoads measures each load of each peer, round by round, and returns all measurements.
func RunLoads(ctx context.Context, r LoadRequest) (loads []Load, err error) {
	if err := checkNames(peers, r.Peers); err != nil {
		return nil, err
	}
	l, err := Open(ctx, r.Options, r.Binaries, r.SlowDisk)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	entrants, err := l.entrants(ctx, peers, r.Peers, r.Skip || len(r.Peers) == 0, r.Progress.skipped)
	if err != nil {
		return nil, err
	}
	for range r.Rounds {
		for _, rate := range r.Rates {
			for _, queues := range r.Queues {
				for _, e := range entrants {
					if !e.bears(rate) {
						continue
					}
					load, err := l.load(ctx, e, rate, queues)
					if err != nil {
						return loads, fmt.Errorf("%s at %g a second in %d queues: %w", e.Entrant, rate, queues, err)
					}
					fmt.Fprintln(r.Progress.Out, load)
					loads = append(loads, load)
				}
			}
		}
		slices.Reverse(entrants) // so that drift on the machine favours no peer
	}
	return loads, nil
}

// bears reports whether the entrant can sustain the rate. pg-boss, for example, does one job in two seconds by default.
func (e entrant) bears(rate float64) bool {
	const seldom = 10 // the most jobs of a drain for entrants that need a second or more for a job
	return !slices.Contains(e.without, results.Latency) && (e.most == 0 || e.most > seldom || rate == 0)
}

// load measures one load of one entrant, in a database of its own.
func (l *Lab) load(ctx context.Context, e entrant, rate float64, queues int) (load Load, err error) {
	load = Load{Entrant: e.Entrant, Rate: rate, Queues: queues}
	deleted := !e.retained.Retained
	d, err := l.create(ctx)
	if err != nil {
		return load, err
	}
	defer d.drop(ctx)
	config := protocol.Config{
		DatabaseURL: d.url, Profile: e.Profile, Deleted: deleted, PayloadBytes: l.options.PayloadBytes,
		Connections: l.options.Connections, Seconds: l.options.Seconds, Rate: rate, Queues: queues,
	}
	if _, _, err := do(ctx, e.command, protocol.Prepare, config, ""); err != nil {
		return load, err
	}
	if err := d.settle(ctx); err != nil {
		return load, err
	}
	p, err := start(ctx, e.command, protocol.Pace, config)
	if err != nil {
		return load, err
	}
	err = load.measure(ctx, d, p)
	_, stopErr := p.stop()
	return load, first(stopErr, err)
}

// measure measures what changes between the peer's events Started and Filled.
func (load *Load) measure(ctx context.Context, d *database, p *process) error {
	if _, err := p.await(protocol.Started); err != nil {
		return err
	}
	before, err := d.usage(ctx)
	if err != nil {
		return err
	}
	counting, stop := context.WithCancel(ctx)
	most := make(chan int, 1)
	go func() { most <- d.mostConnections(counting) }()
	done, err := p.await(protocol.Filled)
	stop()
	load.Connections = <-most
	if err != nil {
		return err
	}
	after, err := d.usage(ctx)
	if err != nil {
		return err
	}
	load.PerSecond = float64(done.Jobs) / done.Seconds
	load.ClientCPU = done.CPUSeconds * 1e6 / done.Seconds
	seconds := after.at.Sub(before.at).Seconds()
	load.ServerCPU = measure.Microseconds(after.cpu-before.cpu) / seconds
	load.Transactions = float64(after.transactions-before.transactions) / seconds
	return nil
}

// usage is what a database has used so far.
type usage struct {
	at           time.Time
	cpu          time.Duration
	transactions int64
}

// usage reads the counters from another database, so that its own transactions are not counted.
func (d *database) usage(ctx context.Context) (u usage, err error) {
	u.cpu, _ = measure.ServerCPU(d.dir)
	u.at = time.Now()
	u.transactions, err = measure.Transactions(ctx, d.home, d.name)
	return u, err
}

// sampleEvery is how often connections are counted: rarely enough not to affect the measured costs.
const sampleEvery = 250 * time.Millisecond

// mostConnections returns the largest number of sessions of the database until ctx ends, without the lab's own.
func (d *database) mostConnections(ctx context.Context) (most int) {
	for {
		var n int
		const sessions = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client " +
			"backend'"
		if err := d.home.QueryRow(context.WithoutCancel(ctx), sessions, d.name).Scan(&n); err == nil {
			most = max(most, n)
		}
		select {
		case <-ctx.Done():
			return most
		case <-time.After(sampleEvery):
		}
	}
}

// String formats the load on one line.
func (load Load) String() string {
	text := fmt.Sprintf("%s, %g a second in %d queues: %d connections, %.1f transactions a second", load.Entrant,
		load.Rate, load.Queues, load.Connections, load.Transactions)
	if load.Rate > 0 {
		server, client := load.PerJob()
		text += fmt.Sprintf(", %.0f jobs/s, server %.0f µs and client %.0f µs a job", load.PerSecond, server, client)
	}
	return text
}

// PerJob returns the processor time of a job, in microseconds.
func (load Load) PerJob() (server, client float64) {
	if load.PerSecond == 0 {
		return 0, 0
	}
	return load.ServerCPU / load.PerSecond, load.ClientCPU / load.PerSecond
}
