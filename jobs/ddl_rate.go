package jobs

import "fmt"

// What functions that reckon with the rate of a queue have in common; spans.sql has the method. All lengths are in
// microseconds. A parameter row is the alias of the queue's rule.

// Moment is the time now.
func (view) Moment() string { return "floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint" }

// SpanLength is the length of the span that a start takes, rounded up, so that a rate is never exceeded.
func (view) SpanLength(row string) string { return spanLength(row) + "::bigint" }

func spanLength(row string) string { return fmt.Sprintf("ceil(1000000 / %s.rate::numeric)", row) }

// SpanDepth is how long before now the span of a start may begin: a burst less one. It is bounded, since a rate may be
// a start in 30 years.
func (view) SpanDepth(row string) string {
	return fmt.Sprintf("least((%s.burst - 1) * %s, 4e18)::bigint", row, spanLength(row))
}

// SpanGrace is for how much longer the row of a start is kept: a claim that takes longer has to look anew.
func (view) SpanGrace() int { return 10_000_000 }

// SpanOld is the time before which starts have ceased to matter.
func (v view) SpanOld(row string) string {
	return fmt.Sprintf("(%s - %s - %s - %d)", v.Moment(), v.SpanDepth(row), v.SpanLength(row), v.SpanGrace())
}

// TakesSpan is true where spans.sql does not lock, and otherwise if the cells of a span could be locked.
func (v view) TakesSpan(at string) string {
	cell := func(moment string) string {
		return fmt.Sprintf("pg_try_advisory_xact_lock(hashtextextended('%s start ' || length || ' ' || $1, %s / length))",
			v.Name(), moment)
	}
	return fmt.Sprintf("NOT $3 OR %s\n            AND %s", cell(at), cell("("+at+" + length - 1)"))
}

// MaxGaps is among how many of the newest starts a claim looks for gaps, MaxGiven among how many a start can be given
// back, and MaxOld how many old starts a claim deletes.
func (view) MaxGaps() int  { return 1_000 }
func (view) MaxGiven() int { return 10_000 }
func (view) MaxOld() int   { return 256 }
