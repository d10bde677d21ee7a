package main

import (
	"context"
	"errors"

	"github.com/txwork/txwork/cmd/txwork/internal/workerfile"
	"github.com/txwork/txwork/internal/httppost"
	"github.com/txwork/txwork/workqueue"
)

// A taskHandler handles a task. Its result settles the row.
type taskHandler func(ctx context.Context, t task) error

// handler returns a handler of the file, with its retry settings applied.
func (w *workerRun) handler(h *workerfile.Handler) taskHandler {
	do := w.doing(h)
	return func(ctx context.Context, t task) error {
		err := do(ctx, t)
		if ctx.Err() != nil { // the shutdown, a lost lease or a cancel, none of which is a result of the task
			return err
		}
		return settledBy(h, t, err)
	}
}

func (w *workerRun) doing(h *workerfile.Handler) taskHandler {
	if h.Exec != nil {
		return (&commander{Exec: *h.Exec, children: &w.app.children, environ: w.environ, stdout: w.stdout,
			said: w.said, logger: w.logger}).handle
	}
	return func(ctx context.Context, t task) error {
		return h.HTTP.Post(ctx, httppost.Message{
			ID: t.id, Topic: t.topic, Key: t.key, Attempt: t.attempt, Headers: t.headers, Payload: t.payload,
		}, nil)
	}
}

// settledBy applies the handler's own retry limits, if it has any, instead of the row's. A receiver that is unavailable
// is no attempt of a row whose topic rests; of others it is one, since nothing would keep them from trying for ever.
func settledBy(h *workerfile.Handler, t task, err error) error {
	var o *workqueue.Outcome
	chosen := errors.As(err, &o)
	if chosen && o.IsUnavailable() {
		if t.rests {
			return err
		}
		err, chosen = o.Unwrap(), false
	}
	switch {
	case err == nil || chosen && o.IsPermanent():
		return err
	case h.MaxAttempts > 0 && t.attempt >= h.MaxAttempts:
		return workqueue.Permanent(err)
	case !chosen && h.Retry != (workqueue.Retry{}):
		return workqueue.RetryAfter(h.Retry.Delay(t.attempt), err)
	}
	return err
}
