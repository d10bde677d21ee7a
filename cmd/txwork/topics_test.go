package main

import (
	"testing"

	"github.com/txwork/txwork/outbox"
)

// An operator pauses a topic, sees what it holds back, and resumes it. A relay that ends when nothing is left does not
// wait for a topic that is paused, or whose destination is unavailable.
func TestTopicsArePausedAndResumed(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("outbox", "pause", "sick").ok().prints("topic sick paused")
	c.run("outbox", "pause", "sick").ok().prints("as it was before")
	c.enqueue(outbox.Message{Topic: "sick", Payload: []byte("later")}, outbox.Message{Topic: "well",
		Payload: []byte("now")})
	if r := c.run("outbox", "relay", "--stdout", "--until-empty").ok(); r.stdout != "now\n" {
		t.Errorf("delivered %q while a topic was paused", r.stdout)
	}
	c.run("outbox", "topics").ok().prints("sick", "yes", "1")
	c.exec("UPDATE {schema}.outbox_topic SET unavailable_since = now() - interval '1 hour', rests_until = now(), " +
		"rest = '1 s', cause = 'connection refused'")
	c.run("outbox", "topics").ok().prints("UNAVAILABLE", "sick", "yes")
	c.run("outbox", "topics", "--json").ok().prints(`"unavailable_since":`, `"cause":"connection refused"`)
	c.run("outbox", "resume", "sick").ok().prints("topic sick resumed")
	c.exec("UPDATE {schema}.outbox_topic SET rests_until = now() + interval '1 hour', " +
		"longest_rest = '1 hour'")
	if r := c.run("outbox", "relay", "--stdout", "--until-empty").ok(); r.stdout != "" {
		t.Errorf("delivered %q while a topic rests", r.stdout)
	}
	c.exec("UPDATE {schema}.outbox_topic SET unavailable_since = NULL, rests_until = NULL")
	if r := c.run("outbox", "relay", "--stdout", "--until-empty").ok(); r.stdout != "later\n" {
		t.Errorf("delivered %q after the resume and the rest", r.stdout)
	}
	c.run("inbox", "pause", "billing", "paid").ok()
	c.run("inbox", "topics").ok().prints("billing", "paid", "yes")
}
