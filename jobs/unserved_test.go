package jobs_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/txwork/txwork/jobs"
)

// Nothing reports jobs in a queue that no worker serves. A worker therefore logs at its start which of its kinds wait
// in queues that it does not serve.
func TestAWorkerTellsWhichOfItsKindsItDoesNotServe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queues []jobs.QueueOptions
		want   string // the expected log; empty: nothing is logged
	}{
		"no queues chosen": {nil,
			`level=WARN msg="this worker does not serve the queues of some kinds that it has handlers for" table=jobs kinds="[mail in queue mail]"`},
		"no kind is served": {[]jobs.QueueOptions{{Name: "images"}},
			`level=WARN msg="this worker does not serve the queues of some kinds that it has handlers for" table=jobs kinds="[mail in queue mail report in queue default]"`},
		"kinds are divided": {[]jobs.QueueOptions{{Name: "mail"}},
			`level=INFO msg="this worker does not serve the queues of some kinds that it has handlers for" table=jobs kinds="[report in queue default]"`},
		"all are served": {[]jobs.QueueOptions{{Name: "mail"}, {}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			f := newJobs(t, func(o *jobs.Options) { o.Telemetry.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{Queue: "mail"})
			jobs.Register(f.kinds, nothing[report], jobs.KindOptions[report]{})
			jobs.Declare(f.kinds, jobs.KindOptions[pages]{Queue: "elsewhere"}) // no handler, so another worker's
			w, err := jobs.NewWorker(f.Pool, f.client, jobs.WorkerOptions{Queues: c.queues})
			f.ok(err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			f.ok(w.Run(ctx))
			_, said, _ := strings.Cut(strings.TrimSpace(log.String()), " ")
			equal(t, "log", strings.Replace(said, "table="+f.client.Table().Name(), "table=jobs", 1), c.want)
		})
	}
}

type pages struct{}

func (pages) Kind() string { return "pages" }
