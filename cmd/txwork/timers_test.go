package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func TestTimerIsSetAndMoved(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("timers", "set", "k", "--topic", "t", "--at", "2030-01-02T03:04:05.5+02:00", "--payload", `{"a":1}`).ok().
		prints("timer k set for 2030-01-02T01:04:05.5Z\n")
	if got := value[string](c, "SELECT convert_from(payload, 'UTF8') FROM {schema}.timers"); got != `{"a":1}` {
		t.Errorf("the payload is %s", got)
	}
	moved := decode[shownTimer](c.run("timers", "set", "k", "--topic", "u", "--in", "2d", "--max-attempts", "3",
		"--json").ok())
	if moved.Key != "k" || moved.Topic != "u" || moved.Generation != 2 || moved.MaxAttempts != 3 ||
		moved.Status != "ready" || moved.PayloadBytes != 0 {
		t.Errorf("the timer is %+v", moved)
	}
	if due := value[float64](c,
		"SELECT extract(epoch FROM fire_at - now())::float8 / 3600 FROM {schema}.timers"); due < 47.9 || due > 48 {
		t.Errorf("it fires in %v hours", due)
	}
	c.run("timers", "set", "k", "--topic", "u", "--in", "1h").ok().prints("timer k set again for ")
}

func TestTimerPayloadFromAFile(t *testing.T) {
	c := newMigratedCLI(t)
	file := filepath.Join(t.TempDir(), "payload")
	must(t, os.WriteFile(file, []byte{0, 0xff}, 0o600))
	set := []string{"timers", "set", "k", "--topic", "t", "--in", "1h", "--payload-file"}
	c.run(append(set, file)...).ok()
	c.runWith(t.Context(), strings.NewReader("piped"), append(set, "-")...).ok()
	if got := value[string](c, "SELECT convert_from(payload, 'UTF8') FROM {schema}.timers"); got != "piped" {
		t.Errorf("the payload is %s", got)
	}
	c.run(append(set, file+".none")...).exits(exitFailure).says("no such file")
	large := strings.NewReader(strings.Repeat("x", timers.DefaultMaxPayload+1))
	c.runWith(t.Context(), large, append(set,
		"-")...).exits(exitFailure).says("standard input has more than 1048576 bytes")
}

func TestTimerThatTheLibraryRefusesIsAUsageError(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("timers", "set", "schedule/x", "--topic", "t", "--in",
		"1h").exits(exitUsage).says(`key begins with "schedule/"`)
	c.run("timers", "set", "", "--topic", "t", "--in", "1h").exits(exitUsage).says("key has 0 bytes, it must have 1 to 255 bytes")
	c.run("timers", "list", "--prefix", strings.Repeat("x", 256)).exits(exitUsage).says("prefix has 256 bytes")
}

func TestTimersWithoutTables(t *testing.T) {
	c := newCLI(t)
	c.run("migrate", "up", "--domain", "outbox").ok()
	advised := regexp.MustCompile("run `txwork ([^`]*)`")
	c.run("schedules", "list").exits(exitFailure).says("--domain timers")
	for _, line := range []string{"timers list", "jobs list"} {
		r := c.run(strings.Fields(line)...).exits(exitFailure)
		advice := advised.FindStringSubmatch(r.stderr)
		if advice == nil {
			t.Fatalf("%s advises nothing: %s", line, r.stderr)
		}
		c.run(strings.Fields(advice[1])...).ok()
		c.run(strings.Fields(line)...).ok()
	}
	c.run("schedules", "list").ok()
}

// fire ends due timers as a worker would, by what handle returns.
func (c *cli) fire(handle timers.Handler) {
	c.t.Helper()
	box, err := timers.Open(timers.Options{Schema: c.db.Schema})
	must(c.t, err)
	worker, err := timers.NewWorker(c.db.Pool, box, timers.WorkerOptions{})
	must(c.t, err)
	worker.HandleAll(handle)
	drain, err := worker.Drain()
	must(c.t, err)
	_, err = drain.Process(c.t.Context())
	must(c.t, err)
}

func TestTimersCancel(t *testing.T) {
	c := newMigratedCLI(t)
	for _, key := range []string{"a", "b", "c"} {
		c.run("timers", "set", key, "--topic", "t", "--in", "1h").ok()
	}
	c.run("timers", "cancel", "a", "b").ok().prints("2 timers cancelled")
	c.run("timers", "cancel", "a").ok().prints("0 timers cancelled")
	list := c.run("timers", "list", "--prefix", "a").ok().prints("cancelled").stdout
	if strings.Contains(list, "done") || strings.Contains(list, "failed") {
		t.Errorf("a timer that was cancelled:\n%s", list)
	}

	c.run("timers", "set", "fired", "--topic", "t", "--in", "0s").ok()
	c.fire(func(context.Context, *timers.Delivery) error { return nil })
	r := c.run("timers", "cancel", "none", "fired", "c").exits(exitFailure)
	r.prints("1 timer cancelled").says("none was not cancelled: there is no such timer",
		"fired was not cancelled: it is done", "2 timers could not be cancelled")
	// its handler acknowledged all the same
	c.exec("UPDATE {schema}.timers SET cancelled_at = now() WHERE key = 'fired'")
	c.run("timers", "cancel", "fired").exits(exitFailure).says("fired was not cancelled: it is done")
	id := value[string](c, "SELECT id::text FROM {schema}.timers WHERE key = 'fired'")
	c.run("cancel", "timers", id).exits(exitFailure).says(id + " was not cancelled: it is done")
	all := decode[struct {
		Changed   int
		Unchanged []unchangedTimer
	}](c.run("timers", "cancel", "none", "--json").exits(exitFailure))
	if all.Changed != 0 || len(all.Unchanged) != 1 || all.Unchanged[0].Key != "none" {
		t.Errorf("%+v", all)
	}
}

func TestTimersList(t *testing.T) {
	c := newMigratedCLI(t)
	for i := range 5 {
		c.run("timers", "set", fmt.Sprintf("trial/%d", i), "--topic", "t", "--in", "1h", "--payload", "secret").ok()
	}
	c.run("timers", "set", "other", "--topic", "t\x1b", "--in", "0s").ok()
	c.fire(func(context.Context, *timers.Delivery) error { return workqueue.Permanent(fmt.Errorf("no\nway")) })

	first := c.run("timers", "list", "--prefix", "trial/", "--limit",
		"3").ok().says("there is more: --after trial/2").
		prints("KEY", "trial/0", "(in 59m)", "0/15")
	if strings.Contains(first.stdout, "trial/3") || strings.Contains(first.stdout, "other") ||
		strings.Contains(first.stdout, "secret") {
		t.Errorf("the page is\n%s", first.stdout)
	}
	rest := decode[timersPage](c.run("timers", "list", "--prefix", "trial/", "--limit", "3", "--after", "trial/2",
		"--json").ok())
	if len(rest.Timers) != 2 || rest.Timers[0].Key != "trial/3" || rest.Next != "" || rest.Timers[0].PayloadBytes != 6 {
		t.Errorf("the rest is %+v", rest)
	}
	failed := c.run("timers", "list", "--status", "failed").ok().prints("other", `t\x1b`, "no…", "1/15")
	if strings.Contains(failed.stdout, "trial") {
		t.Errorf("failed timers are\n%s", failed.stdout)
	}
	if empty := c.run("timers", "list", "--status", "in_progress", "--json").ok().stdout; empty != `{"timers":[]}`+
		"\n" {
		t.Errorf("no timers are %s", empty)
	}
}

// A definition with a higher version is not replaced, and the command says so.
func TestANewerDefinitionIsNotReplaced(t *testing.T) {
	c := newMigratedCLI(t)
	put := func(expr string, flags ...string) result {
		return c.run(append([]string{"schedules", "put", "poll", expr, "--topic", "poll"}, flags...)...)
	}
	put("@every 5m", "--version", "7").ok()
	put("@every 6m").exits(exitFailure).says("schedule poll has version 7, and was not changed: --version 7 or higher")
	put("@every 6m", "--version", "-1").exits(exitUsage).says("--version is -1")
	put("@every 8m", "--version", "8", "--json").ok().prints(`"expr":"@every 8m"`, `"version":8`)
}

func TestScheduleIsPutAndListed(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("schedules", "put", "report", "30 6 * * *", "--zone", "Europe/Paris", "--topic", "report", "--payload",
		"secret", "--misfire", "all",
		"--cap", "7", "--grace", "90s", "--overlap", "skip", "--jitter",
		"5s").ok().prints("schedule report is next due ", " 06:30:00 +0", "Z)")
	c.run("schedules", "put", "poll", "@every 5m", "--topic", "poll").ok()

	all := decode[schedulesPage](c.run("schedules", "list", "--json").ok()).Schedules
	if len(all) != 2 || all[0].Name != "poll" {
		t.Fatalf("%+v", all)
	}
	got := all[1]
	if got.NextAt == nil || got.CreatedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	got.NextAt, got.CreatedAt = nil, time.Time{}
	want := shownSchedule{Of: "timers", Name: "report", Expr: "30 6 * * *", Zone: "Europe/Paris", Topic: "report",
		State: "active", Misfire: "all", Cap: 7, Grace: 90,
		Overlap: "skip", Jitter: 5, MaxAttempts: workqueue.DefaultMaxAttempts, PayloadBytes: 6}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	r := c.run("schedules", "list", "--limit", "1").ok().prints("NAME", "poll",
		"active").says("there is more: --after poll")
	if strings.Contains(r.stdout, "report") {
		t.Errorf("a page of one is\n%s", r.stdout)
	}
	c.run("schedules", "list", "--after", "poll", "--prefix", "r").ok().prints("Europe/Paris", " 06:30:00 +0")
}

func TestSchedulePausedTriggeredAndDeleted(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("schedules", "put", "s", "@daily", "--topic", "t").ok()
	c.run("schedules", "pause", "s").ok().prints("schedule s paused")
	c.run("schedules", "list").ok().prints("paused")
	c.run("schedules", "put", "s", "@daily", "--topic", "u").ok().prints("schedule s is paused")

	key := decode[map[string]string](c.run("schedules", "trigger", "s", "--json").ok())["key"]
	if got := value[string](c, "SELECT topic FROM {schema}.timers WHERE key = $1 AND schedule = 's'", key); got != "u" {
		t.Errorf("the timer's topic is %s", got)
	}
	c.run("schedules", "trigger", "s").ok().prints("schedule s triggered: timer ")
	c.run("schedules", "resume", "s", "--json").ok().prints(`"resumed":true`)
	c.run("schedules", "delete", "s").ok().prints("schedule s deleted")
	for _, verb := range []string{"pause", "resume", "trigger", "delete"} {
		c.run("schedules", verb, "s").exits(exitFailure).says(`schedule "s" not found`)
	}
}

func TestScheduleBackfilled(t *testing.T) {
	c := newMigratedCLI(t)
	c.run("schedules", "put", "s", "@daily", "--topic", "t").ok()
	week := []string{"schedules", "backfill", "s", "--from", "2026-01-05T00:00:00Z", "--to", "2026-01-11T00:00:00Z"}
	c.run(append(week, "--dry-run", "--zone", "Asia/Tokyo")...).ok().
		prints("Mon 2026-01-05T09:00:00", "+09:00", "2026-01-05T00:00:00Z", "missing").
		says("7 timers of schedule s would be")
	c.run(week...).ok().prints("schedule s backfilled: 7 timers set")
	preview := decode[backfilledSchedule](c.run(append(week, "--dry-run", "--json")...).ok())
	if preview.Set != 0 || !preview.DryRun || preview.Zone != "UTC" || len(preview.Times) != 7 ||
		!preview.Times[6].Exists {
		t.Errorf("a preview of what exists: %+v", preview)
	}
	c.run(append(week, "--zone", "UTC")...).exits(exitUsage).says("--zone needs --dry-run")
	c.run(append(week, "--zone", "Moon", "--dry-run")...).exits(exitUsage).says("is no zone")
	c.run("audit", "timers_schedule").ok().prints("backfill", "2026-01-05T00:00:00Z")
	if again := decode[map[string]any](c.run(append(week, "--json")...).ok()); again["set"] != 0.0 {
		t.Errorf("a second time %v", again)
	}
	c.run("schedules", "backfill", "s", "--from", "2126-01-05T00:00:00Z", "--to",
		"2126-01-11T00:00:00Z").exits(exitUsage).says("later than now")
	c.run("schedules", "backfill", "none", "--from", "2026-01-05T00:00:00Z", "--to",
		"2026-01-11T00:00:00Z").exits(exitFailure).says(`schedule "none" not found`)
}

// In this night, 02:30 does not exist in New York.
func TestSchedulesNext(t *testing.T) {
	t.Parallel()
	args := []string{"schedules", "next", "30 2 * * *", "--zone", "America/New_York", "--from", "2027-03-13T00:00:00Z",
		"-n", "3"}
	want := strings.Join([]string{
		"LOCAL                    OFFSET  UTC",
		"Sat 2027-03-13T02:30:00  -05:00  2027-03-13T07:30:00Z",
		"Sun 2027-03-14T03:00:00  -04:00  2027-03-14T07:00:00Z",
		"Mon 2027-03-15T02:30:00  -04:00  2027-03-15T06:30:00Z",
		"",
	}, "\n")
	if got := execute(t, t.Context(), nil, nil, args...).ok().stdout; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p := decode[upcoming](execute(t, t.Context(), nil, nil, append(args, "--json")...).ok())
	if p.Zone != "America/New_York" || len(p.Next) != 3 || p.Next[1].Local != "2027-03-14T03:00:00" ||
		p.Next[1].Offset != "-04:00" ||
		!p.Next[1].UTC.Equal(time.Date(2027, 3, 14, 7, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", p)
	}
	if n := strings.Count(execute(t, t.Context(), nil, nil, "schedules", "next", "@every 90s").ok().stdout,
		"\n"); n != defaultNext+1 {
		t.Errorf("%d lines by default", n)
	}
}
