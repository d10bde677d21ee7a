//go:build unix

package main

import (
	"strings"
	"testing"
)

// The commands of the page on subscriptions work as they are printed: a newcomer sends orders to three destinations,
// one of which is killed and catches up, while another one is replayed from yesterday.
func TestTheFirstSessionWithSubscriptions(t *testing.T) {
	t.Parallel()
	x := newTerminal(t)
	x.dir = t.TempDir()
	orders := func(from, to int) (lines []string) {
		for ; from <= to; from++ {
			lines = append(lines, `{"order": `+string(rune('0'+from))+`}`)
		}
		return lines
	}
	// What the relays print, one after the other.
	delivered := [][]string{orders(1, 3), orders(1, 3), orders(1, 3), orders(4, 6), orders(4, 6), orders(4, 6),
		orders(4, 6)}
	// Messages of search that are not settled, and minutes since the oldest.
	lists := [][]string{{"3", "m"}, {"0", "-"}}
	for _, line := range commandsOf(t, "docs/subscriptions.md") {
		switch {
		case strings.Contains(line, "kill -9"):
			x.later("30 hours") // the first orders were placed yesterday
			x.run(line)
		case strings.Contains(line, "outbox relay"):
			if len(delivered) == 0 {
				t.Fatalf("what does %q deliver?", line)
			}
			x.prints(line, delivered[0]...)
			delivered = delivered[1:]
		case strings.HasPrefix(line, "txwork subscriptions replay"):
			x.prints(line, "subscription audit moved to 24h: 1 lane, 0 messages lost, 3 messages again")
		case line == "txwork subscriptions list":
			if len(lists) == 2 {
				x.later("1 hour")
			}
			x.lags(line, "search", lists[0]...)
			lists = lists[1:]
		default:
			x.run(line)
		}
	}
	if len(delivered)+len(lists) > 0 {
		t.Errorf("the page lacks relays that print %q, or lists of %q", delivered, lists)
	}
}

// later makes all messages older, and what ticks know of them.
func (x terminal) later(by string) {
	x.t.Helper()
	x.run(`psql --quiet -v ON_ERROR_STOP=1 --command="SET session_replication_role = replica" ` +
		`--command="UPDATE txwork.outbox_log SET created_at = created_at - interval '` + by + `'" ` +
		`--command="UPDATE txwork.outbox_log_tick SET at = at - interval '` + by + `'" "$TXWORK_DATABASE_URL"`)
}

// prints checks the standard output of a command.
func (x terminal) prints(line string, want ...string) {
	x.t.Helper()
	out, err := x.command(line).Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != strings.Join(want, "\n") {
		x.t.Errorf("%s: %v\nprints %q, want %q", line, err, got, want)
	}
}

// lags checks what the list of subscriptions says of one with one lane.
func (x terminal) lags(line, subscription string, want ...string) {
	x.t.Helper()
	out := x.run(line)
	for row := range strings.Lines(out) {
		if f := strings.Fields(row); len(f) > 5 && f[0] == subscription {
			if got := f[4:6]; got[0] != want[0] || !strings.HasSuffix(got[1], want[1]) {
				x.t.Errorf("%s is behind by %q, want %q:\n%s", subscription, got, want, out)
			}
			return
		}
	}
	x.t.Errorf("%s is not listed:\n%s", subscription, out)
}
