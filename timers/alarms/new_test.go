package alarms_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for field, changes := range map[string][]func(*alarms.New){
		"owner_did": {func(n *alarms.New) { n.OwnerDID = "" }, func(n *alarms.New) {
			n.OwnerDID = strings.Repeat("d", 256)
		}},
		"user_id": {func(n *alarms.New) { n.UserID = " " }},
		"label": {func(n *alarms.New) { n.Label = "a\x00b" }, func(n *alarms.New) {
			n.Label = strings.Repeat("l", 1025)
		}, func(n *alarms.New) { n.Label = "\xff" }},
		"kind": {func(n *alarms.New) { n.Kind = "" }, func(n *alarms.New) { n.Kind = "twice" }},
		"fire_at": {
			func(n *alarms.New) { n.Delay = 0 },
			func(n *alarms.New) { n.Delay, n.FireAt = 0, time.Now().Add(-time.Minute) },
			func(n *alarms.New) { n.Delay, n.FireAt = 0, time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) },
			func(n *alarms.New) {
				// 9999 in UTC
				n.Delay, n.FireAt = 0, time.Date(9998, 12, 31, 23, 59, 0, 0, time.FixedZone("west", -3600))
			},
			func(n *alarms.New) { *n = daily(); n.FireAt = time.Now().Add(time.Hour) },
		},
		"delay_seconds": {
			func(n *alarms.New) { n.Delay = -time.Second },
			func(n *alarms.New) { n.Delay = alarms.MaxDelay + time.Second },
			func(n *alarms.New) { n.FireAt = time.Now().Add(time.Hour) },
			func(n *alarms.New) { *n = daily(); n.Delay = time.Hour },
		},
		"cron_expr": {
			func(n *alarms.New) { n.CronExpr = "@daily" },
			func(n *alarms.New) { *n = daily(); n.CronExpr = "" },
			func(n *alarms.New) { *n = daily(); n.CronExpr = "0 0 30 2 *" },
			func(n *alarms.New) { *n = daily(); n.CronExpr = "* * * * * *" },
			func(n *alarms.New) { *n = daily(); n.CronExpr = "@every -5m" },
			func(n *alarms.New) { *n = daily(); n.CronExpr = strings.Repeat("*", 1001) },
		},
		"timezone": {func(n *alarms.New) { *n = daily(); n.Timezone = "Mars/Olympus" },
			func(n *alarms.New) { *n = daily(); n.Timezone = "Local" }},
		"conversation_id": {func(n *alarms.New) { n.ConversationID = "\x00" }},
		"wake_message": {func(n *alarms.New) { n.WakeMessage = " \n" },
			func(n *alarms.New) { n.WakeMessage = strings.Repeat("m", alarms.DefaultMaxPayload+1) }},
		"idempotency_key": {func(n *alarms.New) { n.IdempotencyKey = strings.Repeat("k", 256) }},
		"max_failures":    {func(n *alarms.New) { n.MaxFailures = -1 }, func(n *alarms.New) { n.MaxFailures = 1001 }},
		"payload": {
			func(n *alarms.New) { n.Payload = json.RawMessage(`{`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(`{} {}`) },
			func(n *alarms.New) { n.Payload = json.RawMessage("\"\xff\"") },
			func(n *alarms.New) { n.Payload = json.RawMessage(`"\u0000"`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(`"\ud800"`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(`"\udc00\ud800"`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(`"\ud800\n"`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(`1e100000`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(`1e-99999999999999999999`) },
			func(n *alarms.New) { n.Payload = json.RawMessage(strings.Repeat("9", 131073)) },
			func(n *alarms.New) { n.Payload = json.RawMessage(strings.Repeat("9", 131072) + "e1") },
			func(n *alarms.New) { n.Payload = json.RawMessage("[0." + strings.Repeat("1", 16384) + "]") },
			func(n *alarms.New) { n.Payload = json.RawMessage("-0." + strings.Repeat("1", 16383) + "e-1") },
			func(n *alarms.New) { n.Payload = json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101)) },
			func(n *alarms.New) {
				n.Payload = json.RawMessage(`"` + strings.Repeat("p", alarms.DefaultMaxPayload) + `"`)
			},
		},
	} {
		for i, change := range changes {
			n := once()
			change(&n)
			_, _, err := f.store.CreateAlarm(t.Context(), n)
			var invalid *workqueue.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s %d: %v", field, i, err)
			}
		}
	}
	if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 0 {
		t.Errorf("%d alarms were written", n)
	}
}

// jsonb accepts every payload that validation accepts.
func TestPayloadsOfEveryKindAreKept(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for _, payload := range []string{
		`null`, `""`, `0`, `[]`, `"\ud83d\ude00"`, `"\\u0000"`, `"\\\\ud800"`, `1e308`, `-1.5E-300`,
		`12345678901234567890.000000000000000000001`,
		`{"a": {"b": [1, 2, {"c": "\u00e9\n\t\"\\"}]}}`, strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"0." + strings.Repeat("1", 16383), "-0." + strings.Repeat("1", 16384) + "e1",
	} {
		n := once()
		n.Payload = json.RawMessage(payload)
		if a := f.create(n); !sameJSON(t, a.Payload, n.Payload) {
			t.Errorf("%s came back as %s", payload, a.Payload)
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

func TestOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, o := range []alarms.Options{{Schema: "Robert'); --"}, {MaxFailures: -1}, {MaxFailures: 1001},
		{MaxPayload: -1}} {
		if _, err := alarms.Open(o); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	a, err := alarms.Open(alarms.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.In(nil).ListAlarms(t.Context(), alice, 0); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("nil transaction: %v", err)
	}
}
