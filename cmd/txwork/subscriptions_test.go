package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/migrations"
)

// makeLog adds a log to the schema, with a subscription that has a message.
func (c *cli) makeLog() {
	c.t.Helper()
	text, err := migrations.SQL(migrations.FileOptions{Schema: c.db.Schema,
		Domains: []migrations.Domain{migrations.Log}})
	must(c.t, err)
	c.db.Define(c.t, text)
	c.log("CALL outbox_log_tick()", "SELECT outbox_log_subscribe('audit', '{t}', '{\"region\": \"eu\"}')",
		`SELECT outbox_log_append('t', '', headers => '{"region": "eu"}')`, "CALL outbox_log_tick()")
}

// log runs statements that name objects of the log.
func (c *cli) log(statements ...string) {
	c.t.Helper()
	for _, s := range statements {
		_, err := c.db.Pool.Exec(c.t.Context(), strings.ReplaceAll(s, "outbox_log", c.db.Schema+".outbox_log"))
		must(c.t, err)
	}
}

func TestSubscriptions(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("subscriptions", "list").exits(exitFailure).says("outbox_log_parked")
	c.makeLog()
	c.run("subscriptions", "list").ok().prints("audit", "MESSAGES", "RETAINED")
	c.run("subscriptions", "add", "search", "--topic", "t,order.*", "--start", "beginning").ok().
		prints("subscription search added: it begins with the oldest message that is kept\n")
	c.run("subscriptions", "add", "later", "--topic", "t", "--start", "2099-03-01T08:30:00Z").exits(exitFailure).
		says("start is in the future", "The latest start is now")
	c.run("subscriptions", "add", "wide", "--lanes", "65").exits(exitFailure).says("Give as many as consumers")
	for _, topic := range []string{"or*er", ""} {
		c.run("subscriptions", "add", "none", "--topic", topic).exits(exitFailure).says("A * alone is all")
	}
	c.run("subscriptions", "add", "none", "--topic", "oder.*").ok().prints("subscription none added: it begins behind tick",
		"none of the newest 1 message of the log has its topics and headers")
	c.run("subscriptions", "remove", "none", "--yes").ok()
	c.run("subscriptions", "add", "search").exits(exitFailure).says("subscription search is there already")
	c.run("subscriptions", "add", "Search").exits(exitFailure).says("name must have")
	c.run("subscriptions", "list", "--json").ok().prints(`"topics":["t","order.*"]`, `"messages":1`)

	c.run("subscriptions", "pause", "search").ok().prints("subscription search paused\n")
	c.run("subscriptions", "pause", "search").ok().prints("paused (as it was before)")
	c.run("subscriptions", "resume", "search").ok().prints("resumed")
	c.run("subscriptions", "resume", "nobody").exits(exitFailure).says("not that of a subscription", "Subscribe first")

	c.run("subscriptions", "cut", "search", "--older-than", "0s", "--dry-run").ok().
		prints("would be cut: 1 lane, 1 message lost")
	c.run("subscriptions", "cut", "search", "--older-than", "0s").exits(exitUsage).
		says("Cut 1 lane of subscription search, which loses 1 message?", "pass --yes")
	c.answer("n\n", "subscriptions", "cut", "search", "--older-than", "0s").exits(exitFailure).says("not confirmed")
	c.run("subscriptions", "list", "--json").ok().prints(`"lost":0`)
	c.answer("y\n", "subscriptions", "cut", "search", "--older-than", "0s").ok().
		prints("search cut: 1 lane, 1 message lost")
	c.run("subscriptions", "list", "--json").ok().prints(`"lost":1`)
	c.run("subscriptions", "replay", "search", "--start", "beginning", "--dry-run", "--json").ok().
		prints(`"again":1,"again_at_least":false`)
	c.run("subscriptions", "cut", "search", "--before", "2027-03-01", "--yes").exits(exitUsage).says("--before")
	c.run("subscriptions", "cut", "search", "--before", "2020-03-01T08:30:00Z", "--yes").ok().
		prints("search cut: 0 lanes, 0 messages lost")
	c.run("subscriptions", "cut", "search", "--before", "2099-03-01T08:30:00Z", "--yes").exits(exitFailure).
		says("before is in the future", "Give a time that has been")
	c.run("subscriptions", "cut", "search", "--yes").exits(exitUsage).says("older-than", "before")

	c.run("subscriptions", "replay", "search", "--start", "beginning", "--yes").ok().
		prints("moved to beginning: 1 lane, 0 messages lost, 1 message again\n")
	c.run("subscriptions", "replay", "search", "--start", "beginning").exits(exitUsage).
		says("Replay 1 lane of subscription search, which loses 0 messages and gets 0 messages again?")
	c.run("subscriptions", "replay", "search", "--start", "now", "--dry-run").ok().prints("1 message lost")
	c.run("subscriptions", "replay", "search", "--start", "monday", "--yes").
		exits(exitUsage).says("want now, beginning, an age")
	c.run("subscriptions", "replay", "search", "--start", "1d", "--dry-run").ok().prints("would be moved to 1d: 1 lane")
	c.log("SELECT outbox_log_fetch('search', '" + uuid.NewString() + "', '1 minute', 1)")
	c.run("subscriptions", "change", "search", "--topic", "other", "--json").ok().prints(`"taken":true`)
	c.run("subscriptions", "change", "search", "--lanes", "400").exits(exitFailure).says("Give as many as consumers")
	c.changesLanes()

	c.log("INSERT INTO outbox_log_parked (subscription, message_id, seq, appended_at, topic, payload) " +
		"VALUES ('search', gen_random_uuid(), 1, now(), 't', '')")
	c.run("subscriptions", "remove", "search", "--yes").exits(exitFailure).says("1 parked messages", "pass --parked")
	c.run("subscriptions", "remove", "search", "--parked", "--dry-run").ok().
		prints("would be removed, with at least 1 message not read, 1 parked message and 0 dead letters")
	c.run("subscriptions", "remove", "search", "--parked", "--yes").ok().
		prints("removed, with at least 1 message not read, 1 parked message")
	if why := value[string](c, "SELECT why FROM {schema}.outbox_log_loss WHERE messages = 1 ORDER BY at DESC LIMIT 1"); why != "remove" {
		t.Errorf("the last loss is recorded with %s", why)
	}
	c.run("subscriptions", "remove", "search", "--yes").exits(exitFailure).says("not that of a subscription")
}

// A retention is set with a subscription, changed, shown, and kept to by whoever maintains.
func TestARetentionOfASubscription(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.run("subscriptions", "add", "search", "--max-age", "8d").exits(exitFailure).
		says("max_age", "between 0 and 7 days")
	c.run("subscriptions", "add", "search", "--max-messages", "-1").exits(exitUsage).says("cannot be negative")
	c.run("subscriptions", "add", "search", "--start", "beginning", "--max-age", "2h", "--max-messages", "1000").ok()
	c.run("subscriptions", "list").ok().prints("KEEPS", "2h, 1000 messages", "all")
	c.run("subscriptions", "list", "--json").ok().prints(`"max_age_seconds":7200,"max_messages":1000`)
	c.run("stats", "outbox_log").ok().prints("KEEPS", "2h, 1000 messages")
	c.run("subscriptions", "change", "search", "--max-messages", "0").ok().
		prints("KEEPS", "2h, 1000 messages", "2h")
	c.run("subscriptions", "change", "search", "--max-age", "0s", "--max-messages", "5", "--json").ok().
		prints(`"max_age_seconds":7200}`, `"max_messages":5}`)
	c.run("subscriptions", "change", "search", "--max-age", "30m", "--max-messages", "0").ok()
	c.log("UPDATE outbox_log_tick SET at = at - interval '1 hour'")
	r := c.run("reap", "outbox_log_parked").ok()
	if !strings.Contains(r.stderr, "has lost messages") || !strings.Contains(r.stderr, "subscription=search") ||
		!strings.Contains(r.stderr, "messages=1") {
		t.Errorf("the log of reap: %s", r.stderr)
	}
	c.run("subscriptions", "list", "--json").ok().prints(`"lost":1`)
	c.run("subscriptions", "replay", "search", "--start", "beginning", "--yes").ok().prints("1 message again")
}

// changesLanes changes the lanes of the subscription search while a consumer has a page, and nothing else.
func (c *cli) changesLanes() {
	c.t.Helper()
	c.run("subscriptions", "change", "search", "--topic", "t", "--header", "region=eu").ok().
		prints("TOPICS", "before", "other", "after", "region=eu")
	c.log("SELECT outbox_log_fetch('search', '" + uuid.NewString() + "', '1 minute', 1)")
	c.run("subscriptions", "change", "search", "--lanes", "3").exits(exitFailure).says("pass --replay-from")
	again := []string{"subscriptions", "change", "search", "--lanes", "3", "--replay-from", "beginning"}
	c.run(append(again, "--dry-run")...).ok().prints("would be changed: 3 lanes, 0 messages lost, 0 messages again")
	c.run(again...).exits(exitUsage).says("Change 3 lanes of subscription search, which loses 0 messages and gets 0 messages again?")
	c.run("subscriptions", "replay", "search", "--start", "now", "--yes").ok() // nothing is left
	c.run(append(again, "--yes")...).ok().prints("search changed: 3 lanes, 0 messages lost, 1 message again", "region=eu")
	c.run("subscriptions", "list", "--json").ok().prints(`"topics":["t"],"headers":{"region":"eu"}`)
	c.run("subscriptions", "change", "search", "--all-topics", "--any-headers", "--json").ok().
		prints(`"after":{"lanes":3,`, `"before":{"topics":["t"],"headers":{"region":"eu"},"lanes":3,`)
}

// A start before what is kept is refused with one that the commands take.
func TestAStartBeforeWhatIsKept(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	c.log("UPDATE outbox_log_state SET gone = (SELECT max(n) FROM outbox_log_tick)")
	text := c.run("subscriptions", "replay", "audit", "--start", "24h", "--dry-run").exits(exitFailure).
		says("before the messages that are kept", "Start at 20", "or at beginning: with the oldest").stderr
	_, text, _ = strings.Cut(text, "Start at ")
	at, _, _ := strings.Cut(text, " or later")
	c.run("subscriptions", "replay", "audit", "--start", at, "--dry-run").ok()
}

// A destination that is unavailable is shown with since when, why and the next probe.
func TestListSaysWhyADestinationIsUnavailable(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	token := uuid.NewString()
	c.log("SELECT outbox_log_fetch('audit', '"+token+"', '1 minute', 1)",
		"SELECT outbox_log_unavailable('audit', '"+token+"', 'connection refused')")
	const says = "audit: its destination has been unavailable for"
	c.run("subscriptions", "list").ok().prints("unavailable", says, "probes it", "connection refused")
	c.run("top", "--once").ok().prints(says)
}

// Parked messages of a subscription that does not exist are none that one could list or decide about.
func TestParkedMessagesOfAnUnknownSubscription(t *testing.T) {
	c := newMigratedCLI(t)
	c.makeLog()
	for _, command := range [][]string{{"list", "--status", "failed"}, {"redrive", "--yes"}, {"redrive", "--dry-run"},
		{"discard", "--yes"}, {"cancel", "--yes"}, {"delete", "--yes"}, {"purge", "--failed-older-than", "1s", "--yes"},
		{"purge", "--done-older-than", "1s", "--dry-run"}} {
		command = append([]string{command[0], "outbox_log_parked"}, append(command[1:], "--subscription")...)
		c.run(append(command, "audit")...).ok()
		c.run(append(command, "audti")...).exits(exitUsage).says(`--subscription "audti" is not that of a subscription`,
			"subscriptions list")
	}
}

// answer runs a command with what its user says.
func (c *cli) answer(text string, args ...string) result {
	c.t.Helper()
	return c.runWith(c.t.Context(), strings.NewReader(text), args...)
}
