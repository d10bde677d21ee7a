package schedule_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

func TestDue(t *testing.T) {
	t.Parallel()
	skip, once, all := schedule.Rule{Misfire: schedule.MisfireSkip}, schedule.Rule{},
		schedule.Rule{Misfire: schedule.MisfireAll}
	two := schedule.Rule{Misfire: schedule.MisfireAll, Cap: 2}
	patient := schedule.Rule{Misfire: schedule.MisfireSkip, Grace: 90 * time.Minute}
	for _, c := range []struct {
		name, expr string
		rule       schedule.Rule
		next, now  string // on 1 January 2026, UTC
		fire       []string
		skipped    int
		following  string
	}{
		{"not yet", "0 * * * *", once, "10:00:00", "09:59:59", nil, 0, "10:00:00"},
		{"at its time", "0 * * * *", skip, "10:00:00", "10:00:00", []string{"10:00:00"}, 0, "11:00:00"},
		{"late within the grace", "0 * * * *", skip, "10:00:00", "10:01:00", []string{"10:00:00"}, 0, "11:00:00"},
		{"later than the grace: skip", "0 * * * *", skip, "10:00:00", "10:01:01", nil, 1, "11:00:00"},
		{"later than the grace: once", "0 * * * *", once, "10:00:00", "10:01:01", []string{"10:00:00"}, 0, "11:00:00"},
		{"several missed: skip", "0 * * * *", skip, "10:00:00", "13:30:00", nil, 4, "14:00:00"},
		{"several missed: once, the newest", "0 * * * *", once, "10:00:00", "13:30:00", []string{"13:00:00"}, 3,
			"14:00:00"},
		{"several missed: all, in order", "0 * * * *", all, "10:00:00", "13:30:00", []string{"10:00:00", "11:00:00",
			"12:00:00", "13:00:00"}, 0, "14:00:00"},
		{"several missed: all up to a cap, the newest", "0 * * * *", two, "10:00:00", "13:30:00",
			[]string{"12:00:00", "13:00:00"}, 2, "14:00:00"},
		{"missed and one on time: skip", "0 * * * *", skip, "10:00:00", "13:00:30", []string{"13:00:00"}, 3,
			"14:00:00"},
		{"missed and one on time: once, by the one on time", "0 * * * *", once, "10:00:00", "13:00:30",
			[]string{"13:00:00"}, 3, "14:00:00"},
		{"missed and one on time: the cap is for misfires", "0 * * * *", two, "10:00:00", "13:00:30",
			[]string{"11:00:00", "12:00:00", "13:00:00"}, 1, "14:00:00"},
		{"all within the grace are on time", "0 * * * *", patient, "10:00:00", "13:10:00",
			[]string{"12:00:00", "13:00:00"}, 2, "14:00:00"},
		{"an interval keeps its phase", "@every 7m", once, "10:00:03", "10:30:00", []string{"10:28:03"}, 4, "10:35:03"},
		{"an interval, all", "@every 7m", all, "10:00:03", "10:15:00", []string{"10:00:03", "10:07:03", "10:14:03"}, 0,
			"10:21:03"},
		{"a planned time that the schedule does not have any more", "0 * * * *", all, "10:20:00", "11:30:00",
			[]string{"10:20:00", "11:00:00"}, 0, "12:00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fire, skipped, following, ok := c.rule.Due(parse(t, c.expr, ""), on(t, c.next), on(t, c.now))
			got := []string{}
			for _, at := range fire {
				got = append(got, at.UTC().Format(time.TimeOnly))
			}
			if !slices.Equal(got, c.fire) || skipped != c.skipped || !ok || !following.Equal(on(t, c.following)) {
				t.Errorf("fires %q, skips %d, then %s, %v; want %q, %d, %s", got, skipped, following, ok, c.fire,
					c.skipped, c.following)
			}
		})
	}
}

func on(t *testing.T, clock string) time.Time { return at(t, "2026-01-01 "+clock+" +00:00") }

func TestDueAtTheEndOfTime(t *testing.T) {
	t.Parallel()
	last := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	fire, skipped, following, ok := schedule.Rule{}.Due(parse(t, "@yearly", ""), last, last)
	if len(fire) != 1 || skipped != 0 || ok || !following.IsZero() {
		t.Errorf("the last occurrence of all: fires %v, skips %d, then %s, %v", fire, skipped, following, ok)
	}
}

// After two missed years of a schedule for every minute, the returned and the counted occurrences are bounded.
func TestDueAfterALongTime(t *testing.T) {
	t.Parallel()
	next, now := on(t, "00:00:00"), on(t, "00:00:30").AddDate(2, 0, 0)
	for _, expr := range []string{"* * * * *", "@every 1s"} {
		rule := schedule.Rule{Misfire: schedule.MisfireAll, Cap: schedule.MaxFire, Grace: 1}
		fire, skipped, following, ok := rule.Due(parse(t, expr, "Europe/Berlin"), next, now)
		if len(fire) != schedule.MaxFire || skipped != schedule.MaxSkipped || !ok || !following.After(now) {
			t.Errorf("%s: fires %d, skips %d, then %s, %v", expr, len(fire), skipped, following, ok)
		}
		if !slices.IsSortedFunc(fire, time.Time.Compare) || fire[len(fire)-1].After(now) ||
			now.Sub(fire[len(fire)-1]) > time.Minute {
			t.Errorf("%s fires from %s to %s at %s", expr, fire[0], fire[len(fire)-1], now)
		}
	}
}

// Whenever Due is called, each occurrence is either fired or skipped, exactly once.
func TestDueLosesNothing(t *testing.T) {
	t.Parallel()
	s := parse(t, "*/10 1-3 * * *", "America/New_York")
	from, until := at(t, "2026-10-31 12:00 -04:00"), at(t, "2026-11-03 12:00 -05:00")
	want := s.Between(from, until, 1000)
	for _, rule := range []schedule.Rule{{}, {Misfire: schedule.MisfireSkip}, {Misfire: schedule.MisfireAll, Cap: 3},
		{Grace: time.Hour}} {
		next, _ := s.Next(from)
		seen := 0
		for now, step := from, time.Second; !now.After(until); now, step = now.Add(step),
			(step*7+time.Second)%(5*time.Hour) {
			fire, skipped, following, ok := rule.Due(s, next, now)
			if !ok || !following.After(now) {
				t.Fatalf("%+v at %s: next is %s, %v", rule, now, following, ok)
			}
			for _, at := range fire {
				if !slices.ContainsFunc(want, at.Equal) || at.Before(next) {
					t.Fatalf("%+v at %s fires %s", rule, now, at)
				}
			}
			seen, next = seen+len(fire)+skipped, following
		}
		fire, skipped, _, _ := rule.Due(s, next, until)
		if seen += len(fire) + skipped; seen != len(want) {
			t.Errorf("%+v has fired or skipped %d of %d", rule, seen, len(want))
		}
	}
}

func TestOffset(t *testing.T) {
	t.Parallel()
	rule, nominal := schedule.Rule{Jitter: time.Minute}, on(t, "10:00:00")
	first := rule.Offset("report", nominal)
	if again := rule.Offset("report", nominal.In(time.FixedZone("", 3600)).Add(999)); again != first {
		t.Errorf("the same moment has %s and %s", first, again)
	}
	// Computed once with sha256sum: the value must stay the same in all versions.
	if want := 5586936 * time.Microsecond; first != want {
		t.Errorf("the offset of report is %s, not %s", first, want)
	}
	var lowest, highest time.Duration = time.Hour, 0
	for i := range 1000 {
		offset := rule.Offset("report", nominal.Add(time.Duration(i)*time.Hour))
		lowest, highest = min(lowest, offset), max(highest, offset)
	}
	if lowest < 0 || lowest > time.Second || highest < 59*time.Second || highest >= time.Minute {
		t.Errorf("a thousand offsets are from %s to %s", lowest, highest)
	}
	for _, jitter := range []time.Duration{0, -time.Second, time.Microsecond - 1} {
		if got := (schedule.Rule{Jitter: jitter}).Offset("report", nominal); got != 0 {
			t.Errorf("jitter %s gives %s", jitter, got)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := schedule.Rule{Misfire: schedule.MisfireAll, Cap: schedule.MaxFire, Grace: time.Hour,
		Overlap: schedule.OverlapBuffer, Jitter: time.Minute}
	if err := errors.Join(good.Check(), schedule.Rule{}.Check()); err != nil {
		t.Error(err)
	}
	for field, rule := range map[string]schedule.Rule{
		"misfire": {Misfire: 3}, "overlap": {Overlap: 3}, "cap": {Cap: -1}, "grace": {Grace: -1},
		"jitter": {Jitter: -1},
	} {
		var refused *schedule.Error
		if err := rule.Check(); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%+v: %v", rule, err)
		}
	}
	if err := (schedule.Rule{Cap: schedule.MaxFire + 1}).Check(); err == nil {
		t.Error("a cap over MaxFire is taken")
	}
}

// What is known to be due is judged like what is computed.
func TestChooseAgreesWithDue(t *testing.T) {
	t.Parallel()
	s := parse(t, "@every 10m", "")
	next := on(t, "06:00")
	for _, misfire := range []schedule.Misfire{schedule.MisfireOnce, schedule.MisfireSkip, schedule.MisfireAll} {
		for _, limit := range []int{0, 1, 3, schedule.MaxFire} {
			for _, grace := range []time.Duration{0, 15 * time.Minute, 10 * time.Hour} {
				for n := range 40 {
					r := schedule.Rule{Misfire: misfire, Cap: limit, Grace: grace}
					now := next.Add(time.Duration(n)*10*time.Minute + 5*time.Minute)
					due := append([]time.Time{next}, s.Between(next, now, schedule.MaxFire)...)
					fire, skipped := r.Choose(due, now)
					wantFire, wantSkipped, _, _ := r.Due(s, next, now)
					if !slices.EqualFunc(fire, wantFire, time.Time.Equal) || skipped != wantSkipped {
						t.Errorf("%+v of %d: %v and %d, want %v and %d", r, len(due), show(fire), skipped,
							show(wantFire), wantSkipped)
					}
				}
			}
		}
	}
	if fire, skipped := (schedule.Rule{}).Choose(nil, next); fire != nil || skipped != 0 {
		t.Errorf("of nothing: %v and %d", fire, skipped)
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, zoneA, b, zoneB string
		want               bool
	}{
		{"@daily", "", "0  0 * * *", "UTC", true},
		{"@annually", "", "0 0 1 JAN *", "", true},
		{"0 0 * * 0", "", "0 0 * * 7", "", true},
		{"@every 90m", "Asia/Tokyo", "@every 1h30m", "Europe/Paris", true},
		{"@every 1h", "", "@hourly", "", false},
		{"@every 1h", "", "@every 2h", "", false},
		{"@daily", "Asia/Tokyo", "@daily", "", false},
		{"0 0 * * *", "", "1 0 * * *", "", false},
		{"0 0 1 * 1", "", "0 0 1 * *", "", false},
		{"0 1 * * *", "Europe/Paris", "0 1-1/1 * * *", "Europe/Paris", false}, // they differ when the clock is set back
	} {
		a, b := parse(t, c.a, c.zoneA), parse(t, c.b, c.zoneB)
		if a.Equal(b) != c.want || b.Equal(a) != c.want || !a.Equal(a) {
			t.Errorf("%q in %q and %q in %q: %v", c.a, c.zoneA, c.b, c.zoneB, a.Equal(b))
		}
	}
}
