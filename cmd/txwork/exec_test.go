//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Headers that do not fit into an environment will not fit on any attempt. Only their own message fails.
func TestHeadersThatDoNotFit(t *testing.T) {
	c := newMigratedCLI(t)
	large := value[uuid.UUID](c, `INSERT INTO {schema}.outbox (topic, payload, headers) VALUES ('t', '',
		jsonb_build_object('large', repeat('x', 200000))) RETURNING id`)
	small := c.enqueue(outbox.Message{Topic: "t", Headers: map[string]string{"small": "1"}})[0]
	c.run("outbox", "relay", "--exec", "exit 0", "--until-empty").ok().says("delivered 1 message; attempts to be " +
		"repeated: 0, failed for good: 1")
	s := c.state(large)
	if s.status != workqueue.Failed || s.attempts != 1 || c.state(small).status != workqueue.Done {
		t.Errorf("the large one is %+v, the small one %+v", s, c.state(small))
	}
	contains(t, "its error", s.lastErr, "TXWORK_HEADERS has 200012 bytes, more than the system hands over")
}

// A worker's own environment that is too large is not the fault of any message.
func TestAnEnvironmentThatDoesNotFit(t *testing.T) {
	c := newMigratedCLI(t)
	id := c.enqueue(outbox.Message{Topic: "t"})[0]
	c.workUntil("outbox: {retry: {base: 1h, cap: 1h}, topics: {t: {exec: {command: 'exit 0', env: {LARGE: '"+
		strings.Repeat("x", 200_000)+"'}}}}}", "SELECT attempts = 1 AND status = 0 FROM {schema}.outbox").ok()
	contains(t, "its error", c.state(id).lastErr, "the worker's own environment and the command's arguments have 20")
}

// What commands write to standard error is bounded, and never breaks a line of JSON, whatever it is.
func TestErrorOutputKeepsTheLogClean(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "short"}, outbox.Message{Topic: "long"}, outbox.Message{Topic: "much"})
	r := c.workUntil(`
outbox:
  retry: {base: 1h, cap: 1h}
  topics:
    short: {exec: 'printf "no end" >&2; exit 1'}
    long: {exec: 'head -c 20000 /dev/zero | tr "\000" "x" >&2; exit 1'}
    much: {exec: 'yes "{" | head -c 3000000 >&2; echo the end >&2; exit 1'}
`, "SELECT bool_and(attempts = 1 AND status = 0) FROM {schema}.outbox").ok()
	said, lost := map[string]int{}, 0
	for line := range strings.Lines(r.stderr) {
		var l struct {
			Message string `json:"msg"`
			Topic   string
			Text    string
			ID      uuid.UUID
			Lost    int `json:"bytes_left_out"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %.200s", err, line)
		}
		if len(line) > 10_000 {
			t.Errorf("a line of %d bytes", len(line))
		}
		lost += l.Lost
		if l.Message == "command wrote to standard error" {
			said[l.Topic] += len(l.Text)
		}
	}
	if said["short"] != len("no end") || said["long"] != 20_000 || said["much"] == 0 || len(r.stderr) > 200<<10 ||
		lost < 2_900_000 {
		t.Errorf("the log has %v bytes, and %d are left out", said, lost)
	}
	const end = "SELECT right(last_error, 7) FROM {schema}.outbox WHERE topic = 'much'"
	if got := value[string](c, end); got != "the end" {
		t.Errorf("the message's error ends with %q", got)
	}
}

// The result of a relay is a line of its own, whatever its commands have written before it.
func TestErrorOutputKeepsTheResultClean(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "t"})
	r := c.run("outbox", "relay", "--exec", "printf 'no end' >&2", "--until-empty", "--json").ok()
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if !json.Valid([]byte(lines[len(lines)-1])) || !strings.Contains(r.stderr, "no end\n") {
		t.Errorf("standard error is %q", r.stderr)
	}
}
