package topics

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/workqueue"
)

// HandleBatch registers a batch as the handler of a topic, whose rows are then handled together. It is for domains,
// which have a method of their own for it. It panics like [Worker.Handle], and if the options or the handler are
// refused.
func HandleBatch[T, H any](w *Worker[H], topic string, o workqueue.BatchOptions, size func(*T) int,
	handler workqueue.BatchHandler[T]) {
	w.handlers.handleBatch(topic, newBatch(w.handlers.domain, o, size, handler))
}

// HandleAllBatch registers a batch as the handler of every topic that has none of its own: rows of several topics are
// handled together. It panics like [HandleBatch].
func HandleAllBatch[T, H any](w *Worker[H], o workqueue.BatchOptions, size func(*T) int,
	handler workqueue.BatchHandler[T]) {
	w.handlers.handleAllBatch(newBatch(w.handlers.domain, o, size, handler))
}

// Together makes the handler of a batch from one that takes rows as handlers of the domain do, where deliver passes a
// claim to such a handler. Each call gets copies, because a handler may change what it gets, and is called again with
// the halves of a batch that failed.
func Together[T any](deliver func(context.Context, *workqueue.Claim[T], func(context.Context, *T) error) error,
	handler func(context.Context, []*T) ([]error, error)) workqueue.BatchHandler[T] {
	if handler == nil {
		return nil
	}
	return func(ctx context.Context, claims []*workqueue.Claim[T]) ([]error, error) {
		copies, batch := make([]T, len(claims)), make([]*T, len(claims))
		for i, c := range claims {
			if err := deliver(ctx, c, func(_ context.Context, row *T) error {
				copies[i] = *row
				batch[i] = &copies[i]
				return nil
			}); err != nil {
				return nil, err
			}
		}
		return handler(ctx, batch)
	}
}

func newBatch[T any](domain string, o workqueue.BatchOptions, size func(*T) int,
	handler workqueue.BatchHandler[T]) *workqueue.Batch[T] {
	b, err := workqueue.NewBatch(o, size, handler)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", domain, err))
	}
	return b
}

// limited is a [workqueue.Batch].
type limited interface{ Limit() int }

func (r *Registry[H]) handleBatch(topic string, b limited) {
	r.add(topic, func() { r.batches[topic] = b })
}

func (r *Registry[H]) handleAllBatch(b limited) {
	r.addFallback(func() { r.batchOfAll = b })
}

// batch is that of a topic; nil if its rows are handled one by one.
func (r *Registry[H]) batch(topic string) limited {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if b := r.batches[topic]; b != nil {
		return b
	}
	if _, alone := r.handlers[topic]; alone {
		return nil
	}
	return r.batchOfAll
}

// each is how many rows a worker claims for each of its handlers: the largest limit of the batches, or 1 if rows of
// some topics are handled one by one. It is 0 if there are no batches.
func (r *Registry[H]) each() (n int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, b := range r.batches {
		n = max(n, b.Limit())
	}
	if r.batchOfAll != nil {
		n = max(n, r.batchOfAll.Limit())
	}
	if len(r.handlers) > 0 || r.fallback != nil {
		n = min(n, 1)
	}
	return n
}

// useBatches lets the worker know of the batches that were registered. One that has none does not ask for any.
func useBatches[H, T any](w *workqueue.Worker, handlers *Registry[H], topic func(*T) string) error {
	each := handlers.each()
	if each == 0 {
		return nil
	}
	return workqueue.SetBatches(w, func(body *T) *workqueue.Batch[T] {
		b, _ := handlers.batch(topic(body)).(*workqueue.Batch[T])
		return b
	}, each)
}
