// Package validate checks the input of a domain: the package that writes the rows of a table of its own. Each check
// names the field and returns a [*workqueue.InvalidError], as the core's own checks do.
package validate

import (
	"fmt"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Errorf makes a [*workqueue.InvalidError]: which field was refused, and why.
func Errorf(field, format string, args ...any) error {
	return &workqueue.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Text reports whether PostgreSQL can store s as text.
func Text(field, s string) error { return refuse(field, postgres.Text(s)) }

// JSON reports whether PostgreSQL can store text as jsonb, which holds less than JSON does: no NUL, no half of a
// surrogate pair, no number beyond its numeric.
func JSON(field string, text []byte) error { return refuse(field, postgres.JSON(text)) }

// Identifier reports whether name can stand as the named kind of identifier: lower-case letters, digits and
// underscores, not starting with a digit, at most 63 bytes.
func Identifier(kind, name string) error { return refuse(kind, postgres.Identifier(name)) }

// Size reports whether a value of so many bytes is within its limit.
func Size(field string, size, limit int) error {
	if size > limit {
		return Errorf(field, "has %d bytes, the limit is %d", size, limit)
	}
	return nil
}

func refuse(field, problem string) error {
	if problem == "" {
		return nil
	}
	return &workqueue.InvalidError{Field: field, Reason: problem}
}
