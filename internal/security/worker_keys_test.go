package security_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// The worker's role folds keys of every kind, also those of which an earlier fold has stored something.
func TestAWorkerFoldsKeysThatHaveState(t *testing.T) {
	f := newFixture(t)
	var said logText
	telemetry := workqueue.Telemetry{Logger: slog.New(slog.NewTextHandler(&said, nil))}
	sending, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: outbox.PerKey, Telemetry: telemetry})
	must(t, err)
	working, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Registry: f.kinds, Telemetry: telemetry})
	must(t, err)
	f.in(f.as("producer"), func(ctx context.Context, tx workqueue.Tx) error {
		for page := range 6 {
			if _, err := sending.Enqueue(ctx, tx, outbox.Message{Topic: "sent", Key: "k"}); err != nil {
				return err
			}
			for _, rule := range []keyed.Rule{keyed.Ordered{Key: "ordered"},
				keyed.Ordered{Key: "goes on", OnFailure: keyed.Skip}, keyed.Limited{Key: "limited", MaxRunning: 2},
				keyed.Limited{Key: "rate", Rate: 1000, Burst: 1}} {
				if _, err := working.Enqueue(ctx, tx, jobs.Insert{Args: printArgs{page}, ByKey: rule}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	pool := f.as("worker")
	options := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}
	f.relay(sending, pool, "sent")
	worker, err := jobs.NewWorker(pool, working, jobs.WorkerOptions{Registry: f.kinds, WorkerOptions: options})
	must(t, err)
	f.run(worker.Run)
	stored := 0
	f.await("every row to be done, or a worker to leave it to others", func() bool {
		stored |= ask[int](f, `SELECT ((SELECT count(*) FROM {schema}.outbox_key_state) > 0)::int
			+ 2 * ((SELECT count(*) FROM {schema}.jobs_key_state) > 0)::int`)
		return said.count("level=WARN") > 0 || ask[int](f, `SELECT
			(SELECT count(*) FROM {schema}.outbox WHERE status <> 2)::int
			+ (SELECT count(*) FROM {schema}.jobs WHERE status <> 2)::int`) == 0
	})
	if text := said.String(); text != "" {
		t.Errorf("with the worker's role it says\n%s", text)
	}
	if stored != 3 {
		t.Errorf("no fold has stored anything of a key (%b): the test shows nothing", stored)
	}
}
