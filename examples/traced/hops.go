package main

import (
	"fmt"
	"slices"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A hop says which span another span follows. Within a transaction or a request, the other span is the parent. Between
// a row and its handler there is a link instead, because the trace that wrote the row may have ended long ago, and
// every attempt has its own span.
type hop struct {
	span, follows string
	linked        bool
}

var hops = []hop{
	{"enqueue example_traced.outbox", "POST /orders", false},
	{"claim example_traced.outbox", "enqueue example_traced.outbox", true},
	{"process example_traced.outbox", "enqueue example_traced.outbox", true},
	{"POST /bills", "process example_traced.outbox", false},
	{"enqueue example_traced.inbox", "POST /bills", false},
	{"process example_traced.inbox", "enqueue example_traced.inbox", true},
	{"settle example_traced.inbox", "process example_traced.inbox", false},
	{"enqueue example_traced.jobs", "process example_traced.inbox", false},
	{"process example_traced.jobs", "enqueue example_traced.jobs", true},
	{"enqueue example_traced.timers", "process example_traced.inbox", false},
	{"process example_traced.timers", "process example_traced.jobs", true},
}

// reconcile looks for each hop among the spans and prints it. It returns an error if any hop is missing.
func reconcile(spans []sdktrace.ReadOnlySpan) error {
	missing := 0
	for _, h := range hops {
		relation, verdict := "child of", "ok"
		if h.linked {
			relation = "linked to"
		}
		if !h.in(spans) {
			verdict = "MISSING"
			missing++
		}
		fmt.Printf("  %-32s %-9s %-32s %s\n", h.span, relation, h.follows, verdict)
	}
	if missing > 0 {
		return fmt.Errorf("not reconciled: %d of %d hops are missing", missing, len(hops))
	}
	fmt.Printf("reconciled: %d hops are there\n", len(hops))
	return nil
}

// in reports whether the hop is among the spans: there must be exactly one span of each name. A child must have the
// other span as its parent, and be in the same trace. A linked span must have a link to the other span, and be in a
// trace of its own.
func (h hop) in(spans []sdktrace.ReadOnlySpan) bool {
	span, follows := one(spans, h.span), one(spans, h.follows)
	if span == nil || follows == nil {
		return false
	}
	same := span.SpanContext().TraceID() == follows.SpanContext().TraceID()
	if !h.linked {
		return same && span.Parent().SpanID() == follows.SpanContext().SpanID()
	}
	return !same && slices.ContainsFunc(span.Links(), func(l sdktrace.Link) bool {
		return is(l.SpanContext, follows.SpanContext())
	})
}

func is(a, b trace.SpanContext) bool { return a.TraceID() == b.TraceID() && a.SpanID() == b.SpanID() }

// one returns the only span with a name, or nil if there is none or more than one.
func one(spans []sdktrace.ReadOnlySpan, name string) (found sdktrace.ReadOnlySpan) {
	for _, s := range spans {
		if s.Name() != name {
			continue
		}
		if found != nil {
			return nil
		}
		found = s
	}
	return found
}
