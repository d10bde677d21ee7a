// Package input has what the domains share about their input: the limits of texts and payloads, and the division of a
// large call into statements.
package input

import (
	"cmp"
	"iter"
	"slices"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Name refuses an empty text, one that cannot be stored, and one longer than limit bytes.
func Name(field, name string, limit int) error {
	if name == "" {
		return validate.Errorf(field, "is empty")
	}
	return cmp.Or(validate.Size(field, len(name), limit), validate.Text(field, name))
}

// HeaderSize is the total size of the names and values of headers, in bytes.
func HeaderSize(headers map[string]string) int {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
	}
	return size
}

// RowSize is how many bytes a row adds to a statement: its headers, and its bytes, such as the payload.
func RowSize(row workqueue.NewRow) int {
	size := HeaderSize(row.Headers)
	for _, v := range row.Values {
		if b, ok := v.([]byte); ok {
			size += len(b)
		}
	}
	return size
}

// maxPayload is the largest limit that can be set for payloads. PostgreSQL accepts at most 1 GiB in one message, and
// database/sql sends bytes as hexadecimal text, which doubles their size.
const maxPayload = 256 << 20

// LimitPayload sets the bound of a column of payloads to the limit that an option sets, in bytes, unless that is 0.
func LimitPayload(spec workqueue.Spec, column, field string, limit int) error {
	if limit < 0 || limit > maxPayload {
		return validate.Errorf(field, "is %d bytes, it must be between 1 and %d, or 0 for the default", limit, maxPayload)
	}
	i := slices.IndexFunc(spec.Columns, func(c workqueue.Column) bool { return c.Name == column })
	spec.Columns[i].Bound.Max = cmp.Or(int64(limit), spec.Columns[i].Bound.Max)
	return nil
}

// Chunks divides what is to be written into statements of at most [workqueue.MaxBatch] items and
// [postgres.StatementSize], as [workqueue.Table.Insert] does. The function size returns an item's size in bytes.
func Chunks[T any](all []T, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for rest := all; len(rest) > 0; {
			n := postgres.Fitting(rest, workqueue.MaxBatch, func(item *T) int { return size(*item) })
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}
