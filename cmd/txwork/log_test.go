package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/migrations"
)

func TestStatsOfALog(t *testing.T) {
	c := newMigratedCLI(t)
	if s := decode[counted](c.run("stats", "--json").ok()); len(s.Logs) != 0 {
		t.Errorf("a schema without a log has %+v", s.Logs)
	}
	c.run("stats", "outbox_log").exits(exitFailure).says("there is no txwork table")
	c.makeLog()
	c.log("SELECT outbox_log_pause('audit')")
	c.run("stats").ok().prints("outbox_log_parked", "LOG", "NOT TICKED", "SUBSCRIPTION", "audit")
	if text := c.run("stats", c.db.Schema+".outbox_log").ok().prints("audit").stdout; strings.Contains(text, "READY") {
		t.Errorf("stats of a log shows tables, too:\n%s", text)
	}
	if text := c.run("stats", "outbox").ok().stdout; strings.Contains(text, "SUBSCRIPTION") {
		t.Errorf("stats of a table shows a log, too:\n%s", text)
	}
	s := decode[counted](c.run("stats", "--json").ok())
	if len(s.Logs) != 1 || len(s.Logs[0].Subscriptions) != 1 {
		t.Fatalf("logs %+v", s.Logs)
	}
	l := s.Logs[0]
	if audit := l.Subscriptions[0]; l.Tick != 2 || l.Bytes <= 0 || l.Oldest <= 0 || l.Unticked != 0 || l.Restored ||
		audit.Messages != 1 || !audit.Paused || audit.Oldest <= 0 || audit.Retained <= 0 || len(audit.Lanes) != 1 {
		t.Errorf("the log is %+v", l)
	}
	c.log("UPDATE outbox_log_state SET system = system + 1")
	c.run("stats").ok().prints("outbox_log_rebase()")
}

// A message of a log is shown by its id, with what has become of it in each subscription.
func TestAMessageOfALog(t *testing.T) {
	c := newMigratedCLI(t)
	id := uuid.New()
	c.run("show", "outbox_log", id.String()).exits(exitFailure).says("there is no txwork table")
	c.makeLog()
	for _, name := range []string{"passed", "in_hand", "parked"} {
		c.log("SELECT outbox_log_subscribe('" + name + "')")
	}
	c.log("SELECT outbox_log_append('t', 'hello', 'order 17', id => '"+id.String()+"')", "CALL outbox_log_tick()")
	for _, name := range []string{"in_hand", "parked"} {
		c.log("SELECT outbox_log_fetch('" + name + "', '" + id.String() + "', '1 hour', 10)")
	}
	c.log(`SELECT outbox_log_settle('parked', '`+id.String()+`', seq, jsonb_build_array(jsonb_build_object('seq', seq)))
		FROM outbox_log WHERE topic = 't' AND key IS NOT NULL`, "SELECT outbox_log_cut('passed', '0')", "SELECT outbox_log_subscribe('late')",
		"SELECT outbox_log_subscribe('other', '{u}')")
	m := decode[operate.LogMessage](c.run("show", "outbox_log", id.String(), "--payloads", "--json").ok())
	var states []string
	for _, s := range m.Subscriptions {
		states = append(states, s.Subscription+" "+s.State)
	}
	if got := strings.Join(states, ", "); got != "audit not_its_headers, in_hand in_hand, "+
		"late passed_or_before_start, other not_its_topic, parked passed, passed passed" {
		t.Errorf("states are %s", got)
	}
	if m.ID != id || m.Topic != "t" || m.Key == nil || *m.Key != "order 17" || m.Payload.Text == nil ||
		*m.Payload.Text != "hello" || m.Subscriptions[4].Parked == nil || m.Subscriptions[5].Parked != nil {
		text, _ := json.Marshal(m)
		t.Errorf("the message is %s", text)
	}
	c.run("show", "outbox_log", id.String()).ok().prints("order 17", "5 bytes (--payloads shows them)",
		"in_hand, lane 0: in hand", "late, lane 0: passed, or before its start",
		"other, lane 0: not its topic", "parked, lane 0: passed, and parked as row "+m.Subscriptions[4].Parked.String())
	c.run("show", "outbox_log", uuid.NewString()).exits(exitFailure).says("has no message")
	later := uuid.NewString()
	c.log("SELECT outbox_log_append('t', '', id => '" + later + "', scheduled_at => now() + interval '1 hour')")
	c.run("show", "outbox_log", later).exits(exitFailure).says("is scheduled for", "outbox_log_cancel")
	c.run("show", "outbox_log_parked", id.String()).exits(exitFailure).
		says("has no row", "txwork show outbox_log "+id.String())
}

// A subscription whose destination is unavailable is seen, and goes on when an operator resumes it.
func TestASubscriptionThatRests(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	const token = "ca27e3a1-1b2c-4d3e-8f4a-5b6c7d8e9f00"
	c.log("SELECT outbox_log_fetch('audit', '" + token + "', '1 hour', 10)")
	c.log("SELECT outbox_log_unavailable('audit', '" + token + "', 'connection refused')")
	for _, command := range [][]string{{"subscriptions", "list"}, {"stats", "outbox_log"}} {
		c.run(command...).ok().prints("unavailable")
		c.run(append(command, "--json")...).ok().prints(`"cause":"connection refused"`, `"probe_seconds"`)
	}
	c.run("stats", "outbox_log").ok().prints("audit: its destination has been unavailable for", "connection refused")
	c.run("subscriptions", "resume", "audit").ok().prints("resumed\n")
	if text := c.run("stats", "outbox_log").ok().stdout; strings.Contains(text, "unavailable") {
		t.Errorf("it still rests:\n%s", text)
	}
}

// Parked messages are listed by subscription. What a log cannot do is said, with what to do instead.
func TestListsOfALog(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.log("INSERT INTO outbox_log_parked (subscription, message_id, seq, appended_at, topic, payload) " +
		"VALUES ('audit', gen_random_uuid(), 1, now(), 't', ''), ('search', gen_random_uuid(), 1, now(), 'u', '')")
	c.run("list", "outbox_log_parked", "--status", "ready", "--subscription", "search").ok().prints("search", "u")
	p := decode[operate.Page](c.run("list", "outbox_log_parked", "--status", "ready", "--subscription", "audit",
		"--json").ok())
	if len(p.Rows) != 1 {
		t.Errorf("%d rows", len(p.Rows))
	}
	c.run("list", "outbox", "--status", "ready", "--subscription", "audit").exits(exitUsage).
		says("--subscription", "has no column subscription")
	for _, args := range [][]string{{"list", "outbox_log", "--status", "ready"},
		{"purge", "outbox_log", "--done-older-than", "1d"}, {"redrive", "outbox_log", uuid.NewString()},
		{"list", c.db.Schema + ".outbox_log", "--status", "ready"}} {
		c.run(args...).exits(exitFailure).says("outbox_log is a log", "subscriptions list", "show outbox_log ID",
			"outbox_log_parked")
	}
}

func TestTopOfALog(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	f := decode[topFrame](c.run("top", "--json").ok())
	if len(f.Logs) != 1 || len(f.Logs[0].Subscriptions) != 1 || len(f.Skipped) > 0 {
		t.Errorf("the frame has %+v, and skipped %+v", f.Logs, f.Skipped)
	}
	var text strings.Builder
	for _, l := range f.lines(120) {
		text.WriteString(l.text + "\n")
	}
	if !strings.Contains(text.String(), "SUBSCRIPTIONS of "+c.db.Schema+".outbox_log  tick 2") ||
		!strings.Contains(text.String(), "audit") {
		t.Errorf("the frame is shown as\n%s", text.String())
	}
}

// In a schema whose outbox is a log, commands about rows say so instead of advising to make a table of rows.
func TestASchemaWhoseOutboxIsALog(t *testing.T) {
	c := having(migrations.Reaper, migrations.Log)(t)
	for _, args := range [][]string{{"outbox", "topics"}, {"outbox", "pause", "t"}, {"outbox", "resume", "t"}} {
		r := c.run(args...).exits(exitFailure).says("is the log outbox_log", "`txwork subscriptions list --schema ")
		if strings.Contains(r.stderr, "migrate") {
			t.Errorf("it advises to migrate: %s", r.stderr)
		}
	}
	c.run("outbox", "relay", "--stdout").exits(exitFailure).says("is the log outbox_log", "with --subscription")
	c.run("outbox", "unblock", uuid.NewString()).exits(exitFailure).says("is the log outbox_log", "pass --log")
}

func TestASchemaWithoutAnOutbox(t *testing.T) {
	having(migrations.Reaper)(t).run("outbox", "topics").exits(exitFailure).says("migrate up --domain outbox")
}

func TestSendToALog(t *testing.T) {
	c := having(migrations.Reaper, migrations.Log)(t)
	c.log("CALL outbox_log_tick()", "SELECT outbox_log_subscribe('search')")
	c.send("1\n", "--topic", "t").exits(exitFailure).says("is the log outbox_log", "pass --log")
	lines := `{"k":"a","d":"1"}` + "\n" + `{"k":"a","d":"2"}` + "\n" + `{"k":"b","d":"1"}` + "\n"
	args := []string{"--topic", "t", "--log", "--key-field", "k", "--per-key", "--dedup-field", "d", "--batch", "2"}
	c.send(lines, args...).ok().prints("sent 2 messages to topic t in 2 batches, left out 1 duplicate")
	c.log("CALL outbox_log_tick()")
	r := c.run("outbox", "relay", "--stdout", "--until-empty", "--subscription", "search").ok()
	if r.stdout != `{"k":"a","d":"1"}`+"\n"+`{"k":"a","d":"2"}`+"\n" {
		t.Errorf("the relay wrote %q", r.stdout)
	}
	c.send(lines, append(args, "--on-failure", "skip")...).exits(exitUsage).says("--on-failure is not possible with --log")
}

// What a finding says and its evidence are rounded alike: units that have passed.
func TestTheDoctorRoundsOneWay(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.log(`INSERT INTO outbox_log (topic, payload, headers, created_at)
		VALUES ('t', '', '{"region": "eu"}', now() - interval '7 days 20 hours')`)
	c.run("doctor").prints("no consumer reads subscription audit: 2 messages, for 7 days", "oldest_seconds=7d")
}

// Messages that are not in a log yet are listed in the order in which they are due, and counted.
func TestScheduledMessagesOfALog(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("list", "outbox_log", "--status", "scheduled").exits(exitFailure).says("there is no txwork table")
	c.makeLog()
	c.run("list", "outbox_log", "--status", "scheduled").ok()
	first, second := uuid.NewString(), uuid.NewString()
	c.log("SELECT outbox_log_append('late', '12', id => '"+second+"', scheduled_at => now() + interval '2 hours')",
		"SELECT outbox_log_append('soon', '1', 'k', id => '"+first+"', scheduled_at => now() + interval '1 hour')")
	text := c.run("list", "outbox_log", "--status", "scheduled").ok().prints(first, "soon", second, "late").stdout
	if strings.Index(text, first) > strings.Index(text, second) {
		t.Errorf("they are not in the order of their times:\n%s", text)
	}
	p := decode[operate.Page](c.run("list", "outbox_log", "--status", "scheduled", "--limit", "1", "--json").ok())
	if len(p.Messages) != 1 || p.Messages[0].ID.String() != first || *p.Messages[0].Key != "k" || p.Next == "" {
		t.Errorf("the first page is %+v", p)
	}
	p = decode[operate.Page](c.run("list", "outbox_log", "--status", "scheduled", "--limit", "1", "--json", "--after",
		p.Next).ok())
	if len(p.Messages) != 1 || p.Messages[0].ID.String() != second || p.Messages[0].Bytes != 2 || p.Next != "" {
		t.Errorf("the second page is %+v", p)
	}
	c.run("list", "outbox_log", "--status", "scheduled", "--after", "x").exits(exitUsage).says("is no position")
	c.run("list", "outbox_log", "--status", "scheduled", "--topic", "soon").exits(exitUsage).says("without filters")
	if s := decode[counted](c.run("stats", "--json").ok()); s.Logs[0].Scheduled != 2 || s.Logs[0].AtLeast ||
		s.Logs[0].Overdue != 0 {
		t.Errorf("the log is %+v", s.Logs[0])
	}
	c.log("UPDATE outbox_log_later SET due_at = now() - interval '1 minute' WHERE topic = 'soon'")
	if s := decode[counted](c.run("stats", "--json").ok()); s.Logs[0].Overdue < 60 {
		t.Errorf("the log is %+v", s.Logs[0])
	}
	c.run("stats", "outbox_log").ok().prints("SCHEDULED", "OVERDUE")
}
