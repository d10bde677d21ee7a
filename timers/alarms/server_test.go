package alarms_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
)

func TestTheAPIFromCreateToCancel(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Version: "v1"})
	created := data[map[string]any](a.do(aliceToken, "POST", "/v1/alarms", `{
		"label": " daily summary ", "kind": "cron", "cron_expr": "0 9 * * *", "timezone": "America/New_York", "conversation_id": "conv",
		"wake_message": "summarise", "payload": {"a": 1}, "idempotency_key": "k", "max_failures": 3}`).says(200, `"ok":true`, `"status":"active"`))
	id := created["id"].(string)
	if len(created) != 3 || created["next_fire_at"] == nil {
		t.Errorf("created %v", created)
	}
	again := data[map[string]any](a.do(aliceToken, "POST", "/v1/alarms",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "idempotency_key": "k"}`).says(200))
	if again["id"] != id || again["deduped"] != true {
		t.Errorf("again %v", again)
	}
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	once := data[map[string]any](a.do(aliceToken, "POST", "/v1/alarms", `{"kind": "once", "fire_at": "`+at+
		`", "wake_message": "m"}`).says(200))
	if once["next_fire_at"] != at {
		t.Errorf("asked for %s, got %v", at, once)
	}
	list := data[struct {
		Alarms []alarms.View
		Count  int
	}](a.do(aliceToken, "GET", "/v1/alarms", "").says(200))
	if list.Count != 2 || len(list.Alarms) != 2 || list.Alarms[1].ID != id ||
		list.Alarms[1].Label != " daily summary " {
		t.Errorf("list %+v", list)
	}
	a.do(aliceToken, "GET", "/v1/alarms?limit=1", "").says(200, `"count":1`)
	a.do(bobToken, "GET", "/v1/alarms", "").says(200, `"alarms":[]`, `"count":0`)
	got := data[alarms.View](a.do(aliceToken, "GET", "/v1/alarms/"+id, "").says(200))
	if got.CronExpr != "0 9 * * *" || got.Timezone != "America/New_York" || got.MaxFailures != 3 ||
		string(got.Payload) != `{"a":1}` && !sameJSON(t, got.Payload, []byte(`{"a":1}`)) {
		t.Errorf("got %+v", got)
	}
	a.do(aliceToken, "DELETE", "/v1/alarms/"+id, "").says(200, `"status":"cancelled"`)
	a.do(aliceToken, "DELETE", "/v1/alarms/"+id, "").says(200, `"status":"cancelled"`)
	a.do("", "GET", "/", "").says(200, `"version":"v1"`)
	a.do("", "GET", "/healthz", "").says(200, `"db":true`)
	a.do("", "GET", "/openapi.json", "").says(200, `"openapi"`)
}

func TestRequestsThatAreRefusedNameTheField(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	for body, field := range map[string]string{
		``:         "body",
		`{`:        "body",
		`nonsense`: "body",
		`[]`:       "body",
		`"text"`:   "body",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m"} {}`:                                 "body",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m"} x`:                                  "body",
		"{\"kind\": \"once\", \"delay_seconds\": 5, \"wake_message\": \"\xff\"}":                       "body",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "webhook": "http://x"}`:             "webhook",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "owner_did": "did:else"}`:           "owner_did",
		`{"kind": "once", "delay_seconds": "5", "wake_message": "m"}`:                                  "delay_seconds",
		`{"kind": "once", "delay_seconds": 5.5, "wake_message": "m"}`:                                  "delay_seconds",
		`{"kind": "once", "delay_seconds": 1e30, "wake_message": "m"}`:                                 "delay_seconds",
		`{"kind": "once", "delay_seconds": -5, "wake_message": "m"}`:                                   "delay_seconds",
		`{"kind": "once", "delay_seconds": 9223372036854775807, "wake_message": "m"}`:                  "delay_seconds",
		`{"kind": "once", "delay_seconds": 5, "fire_at": "2999-01-01T00:00:00Z", "wake_message": "m"}`: "delay_seconds",
		`{"kind": "once", "wake_message": "m"}`:                                                        "fire_at",
		`{"kind": "once", "fire_at": "tomorrow", "wake_message": "m"}`:                                 "fire_at",
		`{"kind": "once", "fire_at": "2001-01-01T00:00:00Z", "wake_message": "m"}`:                     "fire_at",
		`{"kind": "once", "delay_seconds": 5}`:                                                         "wake_message",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "a\u0000b"}`:                             "wake_message",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "label": 5}`:                        "label",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "payload": "\u0000"}`:               "payload",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "max_failures": 5000}`:              "max_failures",
		`{"kind": "cron", "cron_expr": "0 0 30 2 *", "wake_message": "m"}`:                             "cron_expr",
		`{"kind": "cron", "cron_expr": "@daily", "timezone": "Mars", "wake_message": "m"}`:             "timezone",
		`{"wake_message": "m"}`: "kind",
		`{"kind": "once", "delay_seconds": 5, "Wake_Message": "m"}`: "Wake_Message",
	} {
		x := a.do(aliceToken, "POST", "/v1/alarms", body).says(400, `"code":"invalid_request"`)
		answer := struct {
			Error struct{ Field, Message string }
		}{}
		if err := json.Unmarshal(x.body, &answer); err != nil || answer.Error.Field != field ||
			!strings.HasPrefix(answer.Error.Message, field) {
			t.Errorf("%s: %s, error %v", body, x.body, err)
		}
	}
	a.do(aliceToken, "GET", "/v1/alarms?limit=many", "").says(400, `"field":"limit"`)
	if n := ask[int](a.fixture, "SELECT count(*) FROM "+a.table); n != 0 {
		t.Errorf("%d alarms were created", n)
	}
}

// Requests that the original service accepted have to be accepted.
func TestFieldsThatSayNothingAreTaken(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	for _, body := range []string{
		`{"kind": "once", "delay_seconds": 5, "fire_at": "", "cron_expr": "", "timezone": "", "wake_message": "m", "max_failures": 0, "label": "", "payload": {}}`,
		`{"kind": "once", "delay_seconds": 5, "timezone": "Europe/Berlin", "wake_message": "m", "max_failures": -1}`,
		`{"kind": "cron", "cron_expr": "@every 5m", "delay_seconds": 0, "wake_message": "m", "payload": null}`,
	} {
		created := data[struct{ ID string }](a.do(aliceToken, "POST", "/v1/alarms", body).says(200))
		a.do(aliceToken, "GET", "/v1/alarms/"+created.ID, "").says(200, `"timezone":"UTC"`, `"max_failures":5`)
	}
}

func TestABodyOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{MaxBody: 1000})
	body := func(n int) string {
		return `{"kind": "once", "delay_seconds": 5, "wake_message": "` + strings.Repeat("m", n) + `"}`
	}
	a.do(aliceToken, "POST", "/v1/alarms", body(900)).says(200)
	a.do(aliceToken, "POST", "/v1/alarms", body(1000)).says(413, `"code":"too_large"`)
	big := newAPI(t, alarms.ServerOptions{})
	big.do(aliceToken, "POST", "/v1/alarms", body(200<<10)).says(200)
	big.do(aliceToken, "POST", "/v1/alarms", body(256<<10)).says(413)
}

func TestOtherMethodsAndPaths(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	for path, allowed := range map[string]string{"/v1/alarms": "GET, POST", "/v1/alarms/" +
		uuid.NewString(): "DELETE, GET", "/healthz": "GET", "/": "GET", "/openapi.json": "GET"} {
		for _, method := range []string{"PUT", "PATCH", "POST", "DELETE", "GET"} {
			if strings.Contains(allowed, method) {
				continue
			}
			if x := a.do(aliceToken, method, path, "").says(405,
				`"code":"method_not_allowed"`); x.header.Get("Allow") != allowed {
				t.Errorf("%s %s: Allow %q, want %q", method, path, x.header.Get("Allow"), allowed)
			}
		}
	}
	for _, path := range []string{"/v1", "/v2/alarms", "/v1/alarms/a/b", "/debug/pprof"} {
		a.do(aliceToken, "GET", path, "").says(404, `"code":"not_found"`)
	}
}

func TestOneOwnersRequestsAreLimited(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: 0.01, Burst: 3})
	for range 3 {
		a.do(aliceToken, "GET", "/v1/alarms", "").says(200)
	}
	x := a.do(aliceToken, "GET", "/v1/alarms", "").says(429, `"code":"rate_limited"`, `"retryable":true`)
	if seconds := x.header.Get("Retry-After"); seconds == "" || seconds == "0" {
		t.Errorf("Retry-After %q", seconds)
	}
	a.do(bobToken, "GET", "/v1/alarms", "").says(200)
	a.do("", "GET", "/healthz", "").says(200)
}

func TestTroubleOfOursTellsNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	a.exec("ALTER TABLE " + a.table + " RENAME TO elsewhere")
	x := a.do(aliceToken, "GET", "/v1/alarms", "").says(500, `"code":"internal"`)
	if bytes.Contains(x.body, []byte("relation")) {
		t.Errorf("got %s", x.body)
	}
	a.Pool.Close()
	a.do("", "GET", "/healthz", "").says(503, `"ok":false`, `"db":false`)
}

func TestTheServerHasLimits(t *testing.T) {
	t.Parallel()
	h := newAPI(t, alarms.ServerOptions{}).server.HTTP()
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 ||
		h.MaxHeaderBytes <= 0 {
		t.Errorf("got %+v", h)
	}
}

// No request makes the server fail, write an alarm that it cannot read, or answer in a way that its document does not
// describe.
func FuzzCreate(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `{"kind": "once", "delay_seconds": 5, "wake_message": "m"}`,
		`{"kind": "cron", "cron_expr": "*/5 * * * *", "timezone": "UTC", "wake_message": "m"}`,
		`{"kind": "once", "fire_at": "2999-12-31T23:59:59.999999999+14:00", "wake_message": "m", "payload": [1e400, "\ud800", {"a": null}]}`,
		`{"kind": "once", "fire_at": "9999-12-31T23:59:59Z", "wake_message": "\u0000", "idempotency_key": "k", "max_failures": -1}`,
		`{"kind": "cron", "cron_expr": "@every 2562047h", "wake_message": "m", "payload": "\\u0000"}`,
	} {
		f.Add([]byte(body))
	}
	all := newAPI(f, alarms.ServerOptions{Rate: -1})
	f.Fuzz(func(t *testing.T, body []byte) {
		a := all.in(t)
		x := a.do(aliceToken, "POST", "/v1/alarms", string(body))
		if x.status != 200 && x.status != 400 && x.status != 413 {
			t.Fatalf("status %d: %s", x.status, x.body)
		}
		if x.status == 200 {
			a.do(aliceToken, "GET", "/v1/alarms/"+data[struct{ ID string }](x).ID, "").says(200)
		}
	})
}
