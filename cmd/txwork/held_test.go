package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// shows compares what show prints of a row with what holds it back, as text and as JSON.
func (c *cli) shows(table string, id uuid.UUID, want *operate.Hold, text string) {
	c.t.Helper()
	r := c.run("show", table, id.String()).ok()
	got := decode[operate.Shown](c.run("show", table, id.String(), "--json").ok()).Held
	if want == nil {
		if got != nil || strings.Contains(r.stdout, "held back") {
			c.t.Errorf("%s is held back: %+v\n%s", id, got, r.stdout)
		}
		return
	}
	want.Next = strings.ReplaceAll(want.Next, "{schema}", c.db.Schema)
	r.prints("held back", text, want.Next)
	if got == nil {
		c.t.Fatalf("%s is not held back, want %+v", id, want)
	}
	if (got.Since != nil) != (want.Paused || want.Unavailable) ||
		got.Since != nil && time.Since(*got.Since).Abs() > time.Hour {
		c.t.Errorf("%s is held back since %v", id, got.Since)
	}
	if got.Since = nil; *got != *want {
		c.t.Errorf("%s is held back by %+v, want %+v", id, got, want)
	}
}

// A row that does not start because of its topic or queue says so, and what to do. A row that runs, or has ended, does
// not.
func TestShowSaysWhatHoldsARowBack(t *testing.T) {
	c := newMigratedCLI(t)
	const odd = "it's odd"
	running := c.enqueue(outbox.Message{Topic: odd})[0]
	_, err := c.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)
	ids := c.enqueue(outbox.Message{Topic: odd}, outbox.Message{Topic: odd, ScheduledAt: time.Now().Add(time.Hour)},
		outbox.Message{Topic: "well"})
	c.shows("outbox", ids[0], nil, "")
	c.run("outbox", "pause", odd).ok()
	paused := operate.Hold{Of: "topic", Name: odd, Paused: true, Next: `txwork outbox resume 'it'\''s odd' --schema {schema}`}
	c.shows("outbox", ids[0], &paused, "topic it's odd is paused since ")
	_, err = c.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
	must(t, err)
	c.run("show", "outbox", ids[0].String()).ok().prints("ready, waiting")
	c.shows("outbox", ids[0], &paused, "topic it's odd is paused since ")
	c.shows("outbox", ids[1], &paused, "lets it go on")
	c.shows("outbox", ids[2], nil, "")
	c.shows("outbox", running, nil, "")
	c.run("outbox", "resume", odd).ok()
	c.shows("outbox", ids[0], &operate.Hold{Of: "topic", Name: odd,
		Next: `txwork list outbox --status in_progress --topic 'it'\''s odd' --schema {schema}`},
		"topic it's odd has no room for more rows")
	c.shows("outbox", ids[1], nil, "")
	c.exec("INSERT INTO {schema}.outbox_topic (topic, unavailable_since, rests_until, rest, cause) VALUES ($1, "+
		"now() - interval '1 minute', now() + interval '1 hour', '1 s', 'connection refused') ON CONFLICT (topic) "+
		"DO UPDATE SET unavailable_since = excluded.unavailable_since, rests_until = excluded.rests_until, "+
		"rest = excluded.rest, cause = excluded.cause", odd)
	c.shows("outbox", ids[0], &operate.Hold{Of: "topic", Name: odd, Unavailable: true, Cause: "connection refused",
		Next: `txwork list outbox --status in_progress --topic 'it'\''s odd' --schema {schema}`},
		"the destination of topic it's odd is unavailable since ")

	received := value[uuid.UUID](c, `INSERT INTO {schema}.inbox (consumer, source, message_id, body_hash, topic, payload)
		VALUES ('billing', 'shop', '1', decode(repeat('00', 32), 'hex'), 'paid', '') RETURNING id`)
	c.run("inbox", "pause", "shipping", "paid").ok()
	c.shows("inbox", received, nil, "")
	c.run("inbox", "pause", "billing", "paid").ok()
	c.shows("inbox", received, &operate.Hold{Of: "topic", Lane: "billing", Name: "paid", Paused: true,
		Next: "txwork inbox resume billing paid --schema {schema}"}, "topic billing paid is paused since ")

	job := c.greet(jobs.Insert{Queue: "mail"})[0]
	c.shows("jobs", job, nil, "")
	c.run("jobs", "pause", "mail").ok()
	c.shows("jobs", job, &operate.Hold{Of: "queue", Name: "mail", Paused: true,
		Next: "txwork jobs resume mail --schema {schema}"}, "queue mail is paused since ")

	parcel := c.insert(c.createTable(own), workqueue.NewRow{Values: []any{"north"}})[0]
	c.shows("parcels", parcel, nil, "")
	c.exec("SELECT {schema}.parcels_pause('north')")
	c.shows("parcels", parcel, &operate.Hold{Of: "topic", Name: "north", Paused: true,
		Next: `SELECT "{schema}"."parcels_resume"('north');`}, "topic north is paused since ")
}

// top shows topics that hold rows back. Its keys pause and resume them, and list their rows.
func TestTopsTopics(t *testing.T) {
	c := newMigratedCLI(t)
	c.enqueue(outbox.Message{Topic: "sick"}, outbox.Message{Topic: "sick"}, outbox.Message{Topic: "well"})
	c.exec(`INSERT INTO {schema}.inbox (consumer, source, message_id, body_hash, topic, payload)
		VALUES ('billing', 'shop', '1', decode(repeat('00', 32), 'hex'), 'paid', '')`)
	if f := decode[topFrame](c.top("--json").ok()); len(f.Topics) > 0 {
		t.Errorf("the topics are %+v", f.Topics)
	}
	c.withSteps(func(s steps) {
		if strings.Contains(s.sees("QUEUES", "sick"), "TOPICS") {
			t.Error("there are topics on the screen although none is paused")
		}
		s.on("queue outbox topic sick")
		s.press("p")
		s.sees("Pause topic sick of outbox? [y/N]")
		s.press("y")
		s.sees("sick (paused)", "TOPICS that are paused", "outbox sick  paused", "topic sick paused")

		c.run("inbox", "pause", "billing", "paid").ok()
		_, err := c.queue().Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1)
		must(t, err)
		s.do(s.refresh)
		s.sees("billing paid")
		f := s.frame
		if len(f.Topics) != 2 || len(f.Skipped) > 0 {
			t.Fatalf("the topics are %+v, not read was %+v", f.Topics, f.Skipped)
		}
		p := f.Topics[0]
		if p.Table != "inbox" || p.Lane != "billing" || p.Topic != "paid" || !p.Paused || p.Aside != 0 {
			t.Errorf("the inbox has %+v", p)
		}
		if p = f.Topics[1]; p.Topic != "sick" || !p.Paused || p.Aside != 2 || p.AtLeast || p.Changed == nil {
			t.Errorf("the outbox has %+v", p)
		}
		s.on("topic outbox sick")
		s.press("enter")
		s.sees("outbox sick  WAITING", "sick")
		if n := len(s.rows.page.Rows); n != 2 {
			t.Errorf("%d rows are listed, want 2", n)
		}
		s.press("enter")
		s.sees("held back", "is paused since")
		s.press("esc", "esc")
		if s.cursor != "topic outbox sick" {
			t.Errorf("the cursor is on %q", s.cursor)
		}
		s.press("p")
		s.sees("Resume topic sick of outbox? [y/N]")
		s.press("y")
		s.sees("topic sick resumed", "behind")
		s.on("topic inbox")
		s.press("p", "y")
		s.sees("topic billing paid resumed")
		if f := s.frame; len(f.Topics) != 1 || f.Topics[0].Paused {
			t.Errorf("the topics are %+v", f.Topics)
		}
	})
}
