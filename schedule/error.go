package schedule

import (
	"fmt"
	"strconv"
)

// An Error says which part of a schedule was refused, and why.
type Error struct {
	Expr string // the given expression, shortened if it is very long
	// "expression", "minute", "hour", "day-of-month", "month", "day-of-week", "interval", "zone", or a field of Rule
	Field  string
	Reason string
}

func (e *Error) Error() string {
	if e.Expr == "" {
		return "schedule: " + e.Field + " " + e.Reason
	}
	return "schedule " + strconv.Quote(e.Expr) + ": " + e.Field + " " + e.Reason
}

func refuse(expr, field, format string, args ...any) *Error {
	return &Error{Expr: clip(expr), Field: field, Reason: fmt.Sprintf(format, args...)}
}

// clip shortens a quoted text, which may be a thousand bytes of anything.
func clip(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
