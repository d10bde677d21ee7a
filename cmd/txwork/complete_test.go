package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/jobs"
)

// completes is what the Tab key offers.
func (c *cli) completes(words ...string) []string {
	c.t.Helper()
	// What is completed comes last, so the flags that name the schema come first.
	line := append([]string{"__complete"}, c.args()...)
	out := c.in(c.t).runLine(append(line, words...)...).ok().stdout
	var offered []string
	for word := range strings.Lines(out) {
		if word = strings.TrimSpace(word); !strings.HasPrefix(word, ":") {
			offered = append(offered, word)
		}
	}
	return offered
}

// runLine runs a command line as it is.
func (c *cli) runLine(args ...string) result {
	c.t.Helper()
	return execute(c.t, c.t.Context(), strings.NewReader(""), nil, args...)
}

func TestCompletionAsksTheDatabase(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	c.deadLetters(1, "order.shipped", "no")
	c.greet(jobs.InsertOptions{Queue: "mail"}, jobs.InsertOptions{Queue: "charges"})
	for _, test := range []struct{ line, want string }{
		{"show |", "inbox jobs jobs_schedule outbox timers timers_schedule"},
		{"list out|", "outbox"},
		{"stats time|", "timers timers_schedule"},
		{"reap outbox in|", "inbox"},
		{"list outbox --status |", "done expired failed in_progress ready scheduled waiting"},
		{"jobs list --status |", "ready in_progress done failed"},
		{"joins jobs --status |", "pending completed failed cancelled"},
		{"redrive outbox --topic |", "order.shipped t"},
		{"redrive jobs --kind |", "greeting"},
		{"jobs list --queue |", "charges mail"},
		{"jobs pause ma|", "mail"},
		{"list outbox --kind |", ""}, // it has none
	} {
		words := strings.Split(strings.TrimSuffix(test.line, "|"), " ")
		if got := c.completes(words...); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s offers %q, want %q", test.line, got, test.want)
		}
	}
}

// Without a database there is nothing to offer, and nothing to complain about.
func TestCompletionWithoutADatabase(t *testing.T) {
	t.Parallel()
	r := execute(t, t.Context(), strings.NewReader(""), nil, "__complete", "list", "").ok()
	if strings.Contains(r.stdout, "outbox") {
		t.Errorf("offered %s", r.stdout)
	}
}
