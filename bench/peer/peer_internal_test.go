package peer

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/txwork/txwork/bench/protocol"
)

// memory is a queue without a database.
type memory struct {
	mu      sync.Mutex
	batches []int
	jobs    chan struct{}
	closed  bool
}

func (m *memory) InsertMany(_ context.Context, bodies []protocol.Body) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, len(bodies))
	for range bodies {
		m.jobs <- struct{}{}
	}
	return nil
}

func (m *memory) InsertOne(ctx context.Context, b protocol.Body) error {
	return m.InsertMany(ctx, []protocol.Body{b})
}

func (m *memory) Work(ctx context.Context, handled func()) error {
	for {
		select {
		case <-m.jobs:
			handled()
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *memory) Close() { m.closed = true }

// phase runs a phase and returns its events. It closes standard input when the peer has printed a text.
func phase(t *testing.T, m *memory, name protocol.Phase, c protocol.Config, until string) []protocol.Event {
	t.Helper()
	p := Peer{
		Describe: func(c protocol.Config) protocol.Description {
			return protocol.Description{Name: "memory", Deleted: c.Deleted}
		},
		Prepare: func(context.Context, protocol.Config) error { return nil },
		Open:    func(context.Context, protocol.Config) (Session, error) { return m, nil },
	}
	stdin, closeStdin := io.Pipe()
	defer closeStdin.Close()
	out := &closer{until: until, close: closeStdin}
	_, env, _ := strings.Cut(c.Env(), "=")
	if err := run(t.Context(), p, []string{string(name)}, env, stdin, out); err != nil {
		t.Fatal(err)
	}
	var events []protocol.Event
	if err := protocol.Read(&out.text, func(e protocol.Event) error {
		events = append(events, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return events
}

// closer closes something when a text is written.
type closer struct {
	text  bytes.Buffer
	until string
	close io.Closer
}

func (c *closer) Write(p []byte) (int, error) {
	if c.until != "" && strings.Contains(string(p), c.until) {
		_ = c.close.Close()
	}
	return c.text.Write(p)
}

func newMemory(jobs int) *memory {
	m := &memory{jobs: make(chan struct{}, 10_000_000)}
	for range jobs {
		m.jobs <- struct{}{}
	}
	return m
}

func TestDescribeSaysTheModesDescription(t *testing.T) {
	e := phase(t, nil, protocol.Describe, protocol.Config{Deleted: true}, "")
	if len(e) != 1 || e[0].Kind != protocol.Described || e[0].Name != "memory" || !e[0].Deleted {
		t.Errorf("it said %+v", e)
	}
}

func TestFillWritesBatches(t *testing.T) {
	m := newMemory(0)
	e := phase(t, m, protocol.Fill, protocol.Config{Jobs: 25, Batch: 10}, "")
	if len(e) != 1 || e[0].Kind != protocol.Filled || e[0].Jobs != 25 || e[0].Seconds <= 0 {
		t.Errorf("it said %+v", e)
	}
	if len(m.batches) != 3 || m.batches[2] != 5 || !m.closed {
		t.Errorf("batches of %v, closed %v", m.batches, m.closed)
	}
}

func TestWorkSaysWhenAllAreHandledAndGoesOnUntilStandardInputEnds(t *testing.T) {
	e := phase(t, newMemory(5), protocol.Work, protocol.Config{Jobs: 5}, "handled")
	if len(e) != 2 || e[0].Kind != protocol.Started || e[1].Kind != protocol.Handled || e[1].Jobs != 5 {
		t.Errorf("it said %+v", e)
	}
}

func TestAWorkerThatIsStoppedBeforeItHasBegunHasNotFailed(t *testing.T) {
	p := Peer{Open: func(ctx context.Context, _ protocol.Config) (Session, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	_, env, _ := strings.Cut(protocol.Config{Jobs: 5}.Env(), "=")
	for phase, fails := range map[protocol.Phase]bool{protocol.Work: false, protocol.Fill: true} {
		if err := run(t.Context(), p, []string{string(phase)}, env, strings.NewReader(""),
			io.Discard); (err != nil) != fails {
			t.Errorf("%s ended with %v", phase, err)
		}
	}
}

func TestWorkOfSeveralProcessesSaysHowFarItIs(t *testing.T) {
	m := &memory{jobs: make(chan struct{}, 3)}
	for range 3 {
		m.jobs <- struct{}{}
	}
	events := phase(t, m, protocol.Work, protocol.Config{Jobs: 100, Processes: 2}, `"jobs":3`)
	if first := events[1]; first.Kind != protocol.Progress || first.Jobs != 1 {
		t.Errorf("the first job is told as %+v", first)
	}
	if last := events[len(events)-1]; last.Kind != protocol.Progress || last.Jobs != 3 {
		t.Errorf("three jobs are told as %+v", last)
	}
}

func TestLatencyMeasuresEachJob(t *testing.T) {
	e := phase(t, newMemory(0), protocol.Latency, protocol.Config{Jobs: 3}, "")
	if len(e) != 1 || e[0].Kind != protocol.Latencies || len(e[0].Millis) != 3 {
		t.Errorf("it said %+v", e)
	}
}

func TestSingleCountsWhatItHasWritten(t *testing.T) {
	m := newMemory(0)
	e := phase(t, m, protocol.Single, protocol.Config{Connections: 3, Seconds: 0.01}, "")
	if len(e) != 1 || e[0].Jobs != len(m.jobs) || e[0].Jobs < 3 || e[0].Seconds < 0.01 {
		t.Errorf("it said %+v of %d jobs", e, len(m.jobs))
	}
}

func TestAnUnknownPhaseIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"dance"}} {
		err := run(t.Context(), Peer{}, args, "{}", strings.NewReader(""), io.Discard)
		if err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestPaceWritesAtItsRateAndWaitsForTheHandlers(t *testing.T) {
	for rate, want := range map[float64]int{200: 39, 0: 0} { // the last of 40 would be due at the end
		m := newMemory(0)
		events := phase(t, m, protocol.Pace, protocol.Config{Rate: rate, Seconds: 0.2, Connections: 2}, "filled")
		if len(events) != 2 || events[0].Kind != protocol.Started || events[1].Kind != protocol.Filled {
			t.Fatalf("said %+v", events)
		}
		if done := events[1]; done.Jobs != want || done.Seconds <= 0 || len(m.batches) != 2*want || !m.closed {
			t.Errorf("at %g a second: %+v, after %d inserts", rate, done, len(m.batches))
		}
	}
}
