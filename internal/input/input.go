// Package input is what the domains share about what they are given: the limits of texts and payloads, and how a call
// of many is divided into statements.
package input

import (
	"cmp"
	"iter"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
)

// Name reports whether a text can stand where one is required, at most limit bytes long.
func Name(field, name string, limit int) error {
	if name == "" {
		return validate.Errorf(field, "is empty")
	}
	return cmp.Or(validate.Size(field, len(name), limit), validate.Text(field, name))
}

// Optional is a value as it is stored where the zero stands for none: then it is nil, which is NULL.
func Optional[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// HeaderSize is how many bytes the names and values of headers have together.
func HeaderSize(headers map[string]string) int {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
	}
	return size
}

// maxPayload is what the limit of a payload may be set to. PostgreSQL takes at most 1 GiB in one message, and
// database/sql carries bytes as hexadecimal text, which doubles them.
const maxPayload = 256 << 20

// PayloadLimit is an option that limits payloads, in bytes, or its default.
func PayloadLimit(field string, given, fallback int) (int, error) {
	switch {
	case given == 0:
		return fallback, nil
	case given < 0 || given > maxPayload:
		return 0, validate.Errorf(field, "is %d bytes, it must be between 1 and %d, or 0 for the default", given,
			maxPayload)
	}
	return given, nil
}

// chunkBytes bounds one statement's payloads and headers, and with them what driver and server hold in memory at
// once.
const chunkBytes = 16 << 20

// Chunks divides what is to be written into statements of at most [workqueue.MaxBatch] items; size is an item's, in
// bytes.
func Chunks[T any](all []T, size func(T) int) iter.Seq[[]T] {
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
