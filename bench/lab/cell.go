package lab

import (
	"context"
	"time"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

// A measurement is a cell while it is being measured.
type measurement struct {
	step
	database *database
	about    protocol.Description
	config   protocol.Config
	cell     *results.Cell
}

// measure measures one cell in a database of its own.
func (l *Lab) measure(ctx context.Context, s step) (results.Cell, error) {
	begun := time.Now()
	deleted, _ := s.entrant.mode(s.Workload)
	about := s.entrant.description(deleted)
	cell := results.Cell{Key: s.Key, Name: about.Name, Version: about.Version, Settings: about.Profiles[s.Profile],
		Deleted: deleted}
	d, err := l.create(ctx)
	if err != nil {
		return cell, err
	}
	defer d.drop(ctx)
	m := &measurement{step: s, database: d, about: about, config: l.config(s, d, deleted), cell: &cell}
	err = m.run(ctx)
	cell.Took = time.Since(begun).Seconds()
	return cell, err
}

func (l *Lab) config(s step, d *database, deleted bool) protocol.Config {
	o := l.options
	c := protocol.Config{
		DatabaseURL: d.url, Profile: s.Profile, Deleted: deleted, Processes: s.Processes,
		Jobs: o.Jobs, PayloadBytes: o.PayloadBytes, Batch: o.Batch, Connections: o.Connections, Seconds: o.Seconds,
	}
	if s.Workload == results.Latency {
		c.Jobs = o.LatencyJobs
	}
	if most := s.entrant.most; most > 0 && s.Workload != results.Enqueue {
		c.Jobs = min(c.Jobs, most)
	}
	if s.Workload == results.Latency {
		if samples := s.entrant.samples; samples > 0 {
			c.Jobs = min(c.Jobs, samples)
		}
		c.Jobs += latencyWarmUp
	}
	return c
}

func (m *measurement) run(ctx context.Context) error {
	if _, _, err := m.do(ctx, protocol.Prepare, ""); err != nil {
		return err
	}
	switch m.Workload {
	case results.Enqueue:
		return m.enqueue(ctx, protocol.Fill)
	case results.Single:
		return m.enqueue(ctx, protocol.Single)
	case results.Served:
		return m.served(ctx)
	case results.Latency:
		return m.latency(ctx)
	case results.Processes:
		return m.drain(ctx, m.shareWork)
	default:
		return m.drain(ctx, m.workAlone)
	}
}

func (m *measurement) do(ctx context.Context, phase protocol.Phase, kind protocol.Kind) (protocol.Event, time.Duration,
	error) {
	return do(ctx, m.entrant.command, phase, m.config, kind)
}

// took records how long a number of jobs took.
func (m *measurement) took(jobs int, seconds float64) {
	m.cell.Jobs, m.cell.Seconds, m.cell.PerSecond = jobs, seconds, float64(jobs)/seconds
}

// enqueue measures a phase that writes jobs, and checks in the database that they were written.
func (m *measurement) enqueue(ctx context.Context, phase protocol.Phase) error {
	if err := m.database.settle(ctx); err != nil {
		return err
	}
	filled, c, err := m.fill(ctx, phase)
	if err != nil {
		return err
	}
	m.took(filled.Jobs, filled.Seconds)
	m.cell.Costs = c
	return nil
}

// served measures writing with a worker beside it.
func (m *measurement) served(ctx context.Context) error {
	worker := m.config
	worker.Queues = 1 // a queue with a name of its own, so that the worker gets none of the written jobs
	p, err := start(ctx, m.entrant.command, protocol.Work, worker)
	if err != nil {
		return err
	}
	if _, err = p.await(protocol.Started); err == nil {
		err = m.enqueue(ctx, protocol.Single)
	}
	_, stopErr := p.stop()
	return first(stopErr, err)
}

func (m *measurement) fill(ctx context.Context, phase protocol.Phase) (filled protocol.Event, c measure.Costs,
	err error) {
	before, err := m.database.counters(ctx)
	if err != nil {
		return filled, c, err
	}
	filled, cpu, err := m.do(ctx, phase, protocol.Filled)
	if err != nil {
		return filled, c, err
	}
	after, err := m.database.counters(ctx)
	if err != nil {
		return filled, c, err
	}
	return filled, before.Costs(after, cpu, max(1, int64(filled.Jobs))), m.database.expect(ctx, m.about.UnfinishedSQL,
		filled.Jobs)
}

// drain fills the queue and measures how work empties it.
func (m *measurement) drain(ctx context.Context, work func(context.Context) (worked, error)) error {
	_, fill, err := m.fill(ctx, protocol.Fill)
	if err != nil {
		return err
	}
	m.cell.FillCosts = &fill
	if err := m.database.settle(ctx); err != nil {
		return err
	}
	before, err := m.database.counters(ctx)
	if err != nil {
		return err
	}
	w, err := work(ctx)
	if err != nil {
		return err
	}
	m.took(m.config.Jobs, w.seconds)
	m.cell.Costs = before.Costs(w.after, w.cpu, int64(m.config.Jobs))
	m.cell.PeakMemory = w.memory
	return nil
}

// worked is what the workers needed: the time, the server's counters after it, the processor time of the clients, and
// the most memory of a client that works alone.
type worked struct {
	seconds float64
	after   measure.Counters
	cpu     time.Duration
	memory  float64 // MiB
}

// workAlone lets one process do all jobs.
func (m *measurement) workAlone(ctx context.Context) (w worked, err error) {
	p, err := start(ctx, m.entrant.command, protocol.Work, m.config)
	if err != nil {
		return w, err
	}
	seconds, workErr := m.awaitDone(ctx, p)
	w.seconds = seconds
	w.after, err = m.database.counters(ctx)
	w.memory = peakMemory(p.command.Process.Pid)
	cpu, stopErr := p.stop()
	w.cpu = cpu
	return w, first(stopErr, workErr, err)
}

// awaitDone waits until the database has no unfinished job, and returns how long that took from the worker's start.
func (m *measurement) awaitDone(ctx context.Context, p *process) (seconds float64, err error) {
	if _, err := p.await(protocol.Started); err != nil {
		return 0, err
	}
	begun := time.Now()
	if _, err := p.await(protocol.Handled); err != nil {
		return 0, err
	}
	ended, err := m.database.awaitNone(ctx, m.about.UnfinishedSQL)
	return ended.Sub(begun).Seconds(), err
}

// latencyWarmUp is the number of first samples that are dropped, because they include opening connections and preparing
// statements.
const latencyWarmUp = 1

func (m *measurement) latency(ctx context.Context) error {
	if err := m.database.settle(ctx); err != nil {
		return err
	}
	before, err := m.database.counters(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	e, cpu, err := m.do(ctx, protocol.Latency, protocol.Latencies)
	if err != nil {
		return err
	}
	m.cell.Seconds = time.Since(begun).Seconds()
	after, err := m.database.counters(ctx)
	if err != nil {
		return err
	}
	m.cell.Costs = before.Costs(after, cpu, int64(m.config.Jobs))
	m.cell.Jobs = len(e.Millis) - latencyWarmUp
	m.cell.P50, m.cell.P99, err = percentiles(e.Millis)
	return err
}

// percentiles returns the percentiles without the warm-up.
func percentiles(millis []float64) (p50, p99 float64, err error) {
	var latencies []time.Duration
	for _, ms := range millis[min(len(millis), latencyWarmUp):] {
		latencies = append(latencies, time.Duration(ms*float64(time.Millisecond)))
	}
	p := measure.PercentilesOf(latencies)
	if p == nil {
		return 0, 0, errNoLatencies
	}
	return p.P50, p.P99, nil
}
