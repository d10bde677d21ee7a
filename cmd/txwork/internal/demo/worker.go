package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const (
	// lease is short, so that the recovery from a dead worker is seen soon.
	lease = 2 * time.Second
	// concurrency is how many handlers a worker runs at once. Each uses a connection.
	concurrency = 8
)

// RunWorker is a worker process: it applies messages to the ledger until its parent tells it to stop. It reads commands
// and writes events, see protocol.go. When stdin ends, the parent is gone, and the process exits whatever it is doing.
func RunWorker(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	commands := bufio.NewScanner(stdin)
	var s setup
	if !commands.Scan() || json.Unmarshal(commands.Bytes(), &s) != nil || s.URL == "" {
		return fmt.Errorf("this is a worker process of `txwork demo`, which is to start it")
	}
	slog.SetDefault(quiet(os.Stderr))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &workerProcess{name: s.Name, events: json.NewEncoder(stdout), stop: stop}
	go w.obey(commands)
	return w.relay(ctx, s)
}

// A workerProcess is a worker, as the process itself sees it.
type workerProcess struct {
	name   string
	stop   context.CancelFunc
	hold   hold
	claims claims
	ledger ledger

	mu     sync.Mutex
	events *json.Encoder
}

func (w *workerProcess) relay(ctx context.Context, s setup) error {
	pool, err := connect(ctx, s.URL, concurrency)
	if err != nil {
		return err
	}
	defer pool.Close()
	o, err := outbox.Open(outbox.Options{Schema: s.Schema, Telemetry: workqueue.Telemetry{Observer: w.claims.observe}})
	if err != nil {
		return err
	}
	w.ledger = newLedger(pool, s)
	relay, err := outbox.NewRelay(pool, o, outbox.RelayOptions{
		WorkerOptions: workqueue.WorkerOptions{Concurrency: concurrency, Lease: lease},
	})
	if err != nil {
		return err
	}
	relay.Handle(topic, w.apply)
	w.tell(event{What: isReady})
	return relay.Run(ctx)
}

// apply is the handler. A handler that respects its context gives up when the lease is lost. This one ignores it, as
// many do, and its late results must be refused all the same.
func (w *workerProcess) apply(ctx context.Context, m *outbox.Delivery) error {
	return w.ledger.apply(context.WithoutCancel(ctx), m, func() {
		w.hold.wait(func(round int) {
			w.tell(event{What: isHolding, Round: round, Message: m.ID, Attempt: m.Attempt, Claims: w.claims.ids()})
		})
	})
}

func (w *workerProcess) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.events.Encode(e) // if the parent is gone nobody reads it, and obey exits
}

// obey follows the parent's commands. If the parent is gone, it exits the process, because handlers that are held would
// never end.
func (w *workerProcess) obey(commands *bufio.Scanner) {
	for commands.Scan() {
		var c command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			break
		}
		switch c.Do {
		case doHold:
			w.hold.arm(c.Round)
			w.tell(event{What: isArmed, Round: c.Round})
		case doResume:
			w.hold.release()
		case doStop:
			w.stop()
		}
	}
	os.Exit(1)
}
