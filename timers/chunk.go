package timers

import (
	"iter"

	"github.com/txwork/txwork/workqueue"
)

// chunkBytes bounds one statement's payloads and headers, and with them what driver and server hold in
// memory at once.
const chunkBytes = 16 << 20

// chunks divides what is to be written into statements.
func chunks[T any](all []T, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		start, bytes := 0, 0
		for i, item := range all {
			n := size(item)
			if i-start == workqueue.MaxBatch || i > start && bytes+n > chunkBytes {
				if !yield(all[start:i]) {
					return
				}
				start, bytes = i, 0
			}
			bytes += n
		}
		if start < len(all) {
			yield(all[start:])
		}
	}
}
