package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/txwork/txwork/schedule"
)

// The zero time, or the start of another calendar, is further from now than a Duration can express.
func TestDueOfANextTimeLongerAgoThanADurationLasts(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 5, 6, 7, 8, 9, 500, time.UTC)
	for _, next := range []time.Time{{}, time.Date(1200, 1, 1, 0, 0, 0, 250, time.UTC)} {
		for _, expr := range []string{"@every 1s", "@every 7h", "@every 2562047h", "*/5 * * * *"} {
			fire, _, following, ok := schedule.Rule{}.Due(parse(t, expr, ""), next, now)
			if !ok || !following.After(now) || len(fire) == 0 || fire[len(fire)-1].After(now) {
				t.Errorf("%s from %v: fires %v, then %v, %v", expr, next, fire, following, ok)
			}
			if step, _ := time.ParseDuration(expr[len("@every "):]); step > 0 &&
				!fire[len(fire)-1].Add(step).Equal(following) {
				t.Errorf("%s from %v: after %v comes %v", expr, next, fire[len(fire)-1], following)
			}
		}
	}
}

func TestAValueWithAStepIsOpenToTheHighestValue(t *testing.T) {
	t.Parallel()
	for open, closed := range map[string]string{
		"0 0 * * 5/2": "0 0 * * 5,7", "0 0 * * 1/2": "0 0 * * 1-7/2", "0 0 * * 7/3": "0 0 * * SUN",
		"0 0 * * 0/2":  "0 0 * * 0,2,4,6",
		"50/5 * * * *": "50,55 * * * *", "0 20/2 * * *": "0 20,22 * * *", "0 0 29/2 * *": "0 0 29,31 * *",
		"0 0 1 9/3 *": "0 0 1 9,12 *",
	} {
		from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		got, want := parse(t, open, "").Between(from, from.AddDate(1, 0, 0), 20), parse(t, closed, "").Between(from,
			from.AddDate(1, 0, 0), 20)
		if len(got) == 0 || len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", open, got, want)
		}
		for i := range got {
			if !got[i].Equal(want[i]) {
				t.Errorf("%s: occurrence %d at %v, want %v", open, i, got[i], want[i])
			}
		}
	}
}

// Letters that only case-fold to those of a name, and spaces and digits of other scripts, are refused.
func TestExpressionsAreASCII(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"0 0 * * \u017fUN", "0 0 * \u017fEP *", "@wee\u212aly", "0\u00a00 * * *",
		"\u0660 0 * * *", "@every \u0661s", "@every 5\u00b5s"} {
		var refused *schedule.Error
		if _, err := schedule.Parse(expr, ""); !errors.As(err, &refused) || refused.Field != "expression" {
			t.Errorf("%q: got %v", expr, err)
		}
	}
}

// The database stores microseconds: half a microsecond would become 0, which means the default.
func TestRulesAreOfWholeMicroseconds(t *testing.T) {
	t.Parallel()
	for field, rule := range map[string]schedule.Rule{
		"grace":  {Grace: 999 * time.Nanosecond},
		"jitter": {Jitter: time.Millisecond + time.Nanosecond},
	} {
		var refused *schedule.Error
		if err := rule.Check(); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%+v: got %v", rule, err)
		}
	}
	if err := (schedule.Rule{Grace: time.Microsecond, Jitter: time.Microsecond}).Check(); err != nil {
		t.Error(err)
	}
}

func TestOnGrid(t *testing.T) {
	t.Parallel()
	anchor := time.Date(2024, 5, 6, 7, 8, 9, 500, time.UTC)
	hourly := parse(t, "@every 1h", "")
	for _, at := range []time.Time{
		anchor, anchor.Add(1), anchor.Add(-1), anchor.Add(time.Hour - 1), anchor.Add(time.Hour), anchor.Add(-time.Hour),
		anchor.Add(-time.Hour - 1),
		anchor.AddDate(400, 0, 0), anchor.AddDate(-400, 0, 0), {},
	} {
		got := hourly.OnGrid(anchor, at)
		if late := at.Sub(got); late < 0 || late >= time.Hour || (got.Unix()-anchor.Unix())%3600 != 0 ||
			got.Nanosecond() != anchor.Nanosecond() {
			t.Errorf("at %v: got %v", at, got)
		}
	}
	if got := parse(t, "@daily", "").OnGrid(anchor, anchor.Add(5)); !got.Equal(anchor.Add(5)) {
		t.Errorf("not an interval: got %v", got)
	}
}
