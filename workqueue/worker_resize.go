package workqueue

// SetConcurrency changes how many handlers run at once. It may be called at any time, also before Run, and is safe for
// concurrent use; the last call counts. It does not wait: when there are to be fewer, running handlers finish, and rows
// that were claimed and that no handler has begun are returned with their attempt, as far as there is no room for them
// any more.
func (w *Worker) SetConcurrency(n int) error {
	if err := checkConcurrency(n); err != nil {
		return err
	}
	w.flow.Resize(n)
	return nil
}

func checkConcurrency(n int) error {
	if n < 1 || n > maxConcurrency {
		return invalid("concurrency", "is %d, it must be between 1 and %d", n, maxConcurrency)
	}
	return nil
}

// release returns rows that no handler has started, with their attempt.
func (w *Worker) release(deliveries []*delivery) {
	for _, d := range deliveries {
		w.finish(d, released)
	}
}
