package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
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
	_, err := c.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	must(t, err)
	later := send("c", time.Now().Add(time.Hour))
	c.fold()
	unfolded := send("d", time.Time{})

	p := decode[operate.Keys](c.run("keys", "outbox", "--json").ok())
	if len(p.Keys) != 4 {
		t.Fatalf("the keys are %+v", p.Keys)
	}
	blocked := func(k operate.Key, key, reason string, waiting int64, next uuid.UUID, by *uuid.UUID) {
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

	first := decode[operate.Keys](c.run("keys", "outbox", "--limit", "3", "--json").ok())
	rest := decode[operate.Keys](c.run("keys", "outbox", "--after", first.Next, "--json").ok())
	if len(first.Keys) != 3 ||
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
	p := decode[operate.Joins](c.run("joins", "outbox", "--json").ok())
	if len(p.Joins) != 1 || p.Joins[0].ID != started.ID.String() || p.Joins[0].Expected != 2 ||
		p.Joins[0].WaitsFor == nil || p.Joins[0].State != "ready" || p.Joins[0].Label != "two" ||
		p.Joins[0].Continuation == nil || *p.Joins[0].Continuation != started.OnComplete.String() {
		t.Fatalf("the joins are %+v", p.Joins)
	}
	owner := workqueue.NewOwnerToken()
	_, err := c.queue().Claim(t.Context(), owner, time.Minute, 2)
	must(t, err)
	_, err = c.queue().Ack(t.Context(), owner, members[:1])
	must(t, err)
	c.fold()
	p = decode[operate.Joins](c.run("joins", "outbox", "--json").ok())
	if len(p.Joins) != 1 || p.Joins[0].Succeeded != 1 || p.Joins[0].WaitsFor == nil ||
		*p.Joins[0].WaitsFor != members[1].String() {
		t.Errorf("the joins are %+v, which wait for %s", p.Joins, members[1])
	}
	c.run("joins", "outbox").ok().prints("1/2", members[1].String(), "in_progress")
	one := decode[operate.JoinMembers](c.run("joins", "outbox", started.ID.String(), "--json").ok())
	if want := []operate.Member{{ID: members[1].String(), State: "in_progress", About: "t"},
		{ID: members[0].String(), State: "done", Counted: "succeeded", About: "t"}}; !slices.Equal(one.Members, want) ||
		one.Succeeded != 1 || one.ID != started.ID.String() {
		t.Errorf("the join is %+v", one)
	}
	c.run("joins", "outbox", started.ID.String(), "--limit", "1").ok().prints("two", "COUNTED AS", members[1].String())
	c.run("joins", "outbox", uuid.NewString()).exits(exitFailure).says("has no join")
	c.run("joins", "outbox", "17").exits(exitUsage).says("is no id")
	c.run("joins", "outbox", started.ID.String(), "--label", "two").exits(exitUsage).says("without an ID")
	if p := decode[operate.Joins](c.run("joins", "outbox", "--status", "completed", "--json").ok()); len(p.Joins) != 0 {
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
		return d.Write(c.t.Context(), func(tx workqueue.Tx) (err error) {
			started, err = c.outbox.StartJoin(c.t.Context(), tx, outbox.Join{Label: "two", Steps: make5("t")[:2],
				OnComplete: &outbox.Message{Topic: "then"}})
			return err
		})
	}))
	return started
}

// Joins that have ended are skipped, a bounded number in each statement, and of a large join a bounded number of
// members is read.
func TestJoinsBehindManyOthers(t *testing.T) {
	c := newMigratedCLI(t)
	pending := c.startJoin().ID.String()
	c.exec("INSERT INTO {schema}.outbox_join (id, status, label, completed_at, retention) SELECT " +
		"('ffffffff-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 1, 'l' || i % 2, now(), '1 day' FROM " +
		"generate_series(1, 12000) AS g (i)")
	c.exec("INSERT INTO {schema}.outbox_join_member (join_id, member_id, outcome) SELECT '" + pending +
		"', gen_random_uuid(), 2 FROM generate_series(1, 11000)")
	for _, test := range []struct {
		args string
		want []string
		next bool
	}{
		{"", []string{pending}, false},
		{"--label two", []string{pending}, false},
		{"--label l1", nil, false},
		{"--status completed --limit 1", []string{"ffffffff-0000-7000-8000-000000002ee0"}, true},
		{"--status completed --limit 1 --label l1", []string{"ffffffff-0000-7000-8000-000000002edf"}, true},
		{"--status completed --limit 1 --after ffffffff-0000-7000-8000-000000000002",
			[]string{"ffffffff-0000-7000-8000-000000000001"}, false},
	} {
		p := decode[operate.Joins](c.run(append([]string{"joins", "outbox", "--json"},
			strings.Fields(test.args)...)...).ok())
		var ids []string
		for _, j := range p.Joins {
			ids = append(ids, j.ID)
		}
		if !slices.Equal(ids, test.want) || (p.Next != "") != test.next {
			t.Errorf("joins %s are %v, and then %q", test.args, ids, p.Next)
		}
	}
	eventually(t, "the statistics tell of the reads", func() bool {
		return value[int](c,
			"SELECT idx_scan FROM pg_stat_user_tables WHERE relid = '{schema}.outbox_join'::regclass") > 10
	})
	if n := value[int](c,
		"SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = '{schema}.outbox_join'::regclass"); n > 0 {
		t.Errorf("%d joins were read without an index", n)
	}
}
