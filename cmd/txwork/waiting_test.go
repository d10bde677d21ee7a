package main

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestKeysAndWhatTheyWaitFor(t *testing.T) {
	c := newShop(t)
	send := func(key string, at time.Time) []uuid.UUID {
		m := outbox.Message{Topic: "t", Key: key}
		first := m
		first.ScheduledAt = at
		return c.enqueue(first, m, m)
	}
	failed := send("a", time.Time{})
	c.fail("no such address", failed[0])
	running := send("b", time.Time{})
	c.fold()
	_, err := c.queue().Claim(t.Context(), uuid.New(), time.Minute, 10)
	must(t, err)
	later := send("c", time.Now().Add(time.Hour))
	c.fold()
	unfolded := send("d", time.Time{})

	p := decode[keysPage](c.run("keys", "outbox", "--json").ok())
	if len(p.Keys) != 4 {
		t.Fatalf("the keys are %+v", p.Keys)
	}
	blocked := func(k shownKey, key, reason string, waiting int64, next uuid.UUID, by *uuid.UUID) {
		t.Helper()
		if k.Key != key || k.Reason != reason || k.Waiting != waiting || k.Next != next.String() || k.AtLeast ||
			(k.Blocker == nil) != (by == nil) ||
			by != nil && *k.Blocker != by.String() {
			t.Errorf("the key is %+v, want %s: %s by %v", k, key, reason, by)
		}
	}
	blocked(p.Keys[0], "a", "dead_letter", 2, failed[1], &failed[0])
	blocked(p.Keys[1], "b", "in_progress", 2, running[1], &running[0])
	blocked(p.Keys[2], "c", "scheduled", 2, later[1], &later[0])
	blocked(p.Keys[3], "d", "fold", 3, unfolded[0], nil)

	first := decode[keysPage](c.run("keys", "outbox", "--limit", "3", "--json").ok())
	if rest := decode[keysPage](c.run("keys", "outbox", "--after", first.Next, "--json").ok()); len(first.Keys) != 3 ||
		len(rest.Keys) != 1 || rest.Keys[0].Key != "d" || rest.Next != "" {
		t.Errorf("the pages are %+v and %+v", first, rest)
	}
	c.run("keys", "outbox").ok().prints("BLOCKED BY", "dead_letter", "no such address")
	c.run("keys", "timers").exits(exitUsage).says("has no keys")
}

func TestJoinsAndWhatTheyWaitFor(t *testing.T) {
	c := newMigratedCLI(t)
	started := c.startJoin()
	members := started.Steps
	p := decode[joinsPage](c.run("joins", "outbox", "--json").ok())
	if len(p.Joins) != 1 || p.Joins[0].ID != started.ID.String() || p.Joins[0].Expected != 2 ||
		p.Joins[0].WaitsFor == nil || p.Joins[0].State != "ready" || p.Joins[0].Label != "two" ||
		p.Joins[0].Continuation == nil || *p.Joins[0].Continuation != started.OnComplete.String() {
		t.Fatalf("the joins are %+v", p.Joins)
	}
	owner := uuid.New()
	_, err := c.queue().Claim(t.Context(), owner, time.Minute, 2)
	must(t, err)
	_, err = c.queue().Ack(t.Context(), owner, members[:1])
	must(t, err)
	c.fold()
	p = decode[joinsPage](c.run("joins", "outbox", "--json").ok())
	if len(p.Joins) != 1 || p.Joins[0].Succeeded != 1 || p.Joins[0].WaitsFor == nil ||
		*p.Joins[0].WaitsFor != members[1].String() {
		t.Errorf("the joins are %+v, which wait for %s", p.Joins, members[1])
	}
	c.run("joins", "outbox").ok().prints("1/2", members[1].String(), "in_progress")
	if p := decode[joinsPage](c.run("joins", "outbox", "--status", "completed", "--json").ok()); len(p.Joins) != 0 {
		t.Errorf("completed are %+v", p.Joins)
	}
	c.run("joins", "timers").exits(exitUsage).says("has no joins")
	c.run("joins", "outbox", "--status", "late").exits(exitUsage).says("want one of pending")
}

// startJoin starts a join of two messages.
func (c *cli) startJoin() (started outbox.Started) {
	c.t.Helper()
	a := &app{databaseURL: c.url, schema: c.db.Schema}
	must(c.t, a.withDatabase(c.t.Context(), func(d *database) error {
		return d.write(c.t.Context(), func(tx workqueue.Tx) (err error) {
			started, err = c.outbox.StartJoin(c.t.Context(), tx, outbox.Join{Label: "two", Steps: make5("t")[:2],
				OnComplete: &outbox.Message{Topic: "then"}})
			return err
		})
	}))
	return started
}
