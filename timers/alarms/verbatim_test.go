package alarms_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

// Ids, messages and labels are returned unchanged, because the owner may compare them byte for byte.
func TestTextsPassThroughUnchanged(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{})
	text := " \t<b>&\u2028\u00e9 e\u0301 \U0001F6D2\u007f \n"
	given, err := json.Marshal(map[string]any{"kind": "once", "delay_seconds": 3600, "label": text,
		"conversation_id": text,
		"wake_message":    text, "idempotency_key": text, "payload": map[string]string{"k": text}})
	if err != nil {
		t.Fatal(err)
	}
	id := a.post(string(given))
	v := a.view(id)
	if v.Label != text || v.ConversationID != text || v.WakeMessage != text || v.IdempotencyKey != text ||
		!sameJSON(t, v.Payload, []byte(mustJSON(t, map[string]string{"k": text}))) {
		t.Errorf("got %+v", v)
	}
	bodies := make(chan []byte, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
	})
	a.dispatch(newHTTPWaker(t, alarms.HTTPWakerOptions{URL: url, AllowPrivate: true}))
	a.due(id)
	body := receive(t, bodies)
	var w alarms.Wake
	if err := json.Unmarshal(body, &w); err != nil || w.ConversationID != text || w.Message != text ||
		!strings.Contains(string(body), "<b>&") {
		t.Errorf("%+v, error %v: %s", w, err, body)
	}
	if strings.HasSuffix(string(body), "\n") {
		t.Error("the wake ends with a line break")
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What cannot be kept unchanged is refused.
func TestWhatCannotPassThroughIsRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	for body, field := range map[string]string{
		`{"kind": "once", "delay_seconds": 5, "wake_message": "\ud800"}`:                                             "wake_message",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "conversation_id": "\udc00x"}`:                    "conversation_id",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "idempotency_key": "\ud800\ud800"}`:               "idempotency_key",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "payload": ["\ud800"]}`:                           "payload",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "a", "wake_message": "b"}`:                             "wake_message",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "a", "\u0077ake_message": "a"}`:                        "wake_message",
		`{"kind": "cron", "kind": "once", "delay_seconds": 5, "wake_message": "m"}`:                                  "kind",
		`{"kind": "once", "delay_seconds": 5, "wake_message": "m", "payload": {"a": 1, "b": 2}, "payload": {"a":1}}`: "payload",
	} {
		a.do(aliceToken, "POST", "/v1/alarms", body).says(400, `"field":"`+field+`"`)
	}
	a.post(`{"kind": "once", "delay_seconds": 5, "wake_message": "\ud83d\uded2"}`)
}

// A repeated request is answered with the existing alarm, whatever its other fields are, as long as it can be parsed.
func TestARepeatIsNotLookedAtFurther(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	id := a.post(`{"kind": "cron", "cron_expr": "@daily", "wake_message": "m", "idempotency_key": "k"}`)
	for _, rest := range []string{
		`"kind": "cron", "cron_expr": "nonsense", "wake_message": "m"`,
		`"kind": "cron", "cron_expr": "@daily", "timezone": "Mars", "wake_message": "m"`,
		`"kind": "once", "fire_at": "2001-01-01T00:00:00Z", "wake_message": "m"`,
		`"kind": "never", "max_failures": 5000`,
		`"label": ""`,
	} {
		again := data[map[string]any](a.do(aliceToken, "POST", "/v1/alarms", `{`+rest+
			`, "idempotency_key": "k"}`).says(200))
		if again["id"] != id || again["deduped"] != true {
			t.Errorf("%s: %v", rest, again)
		}
	}
	a.do(aliceToken, "POST", "/v1/alarms",
		`{"kind": "cron", "cron_expr": "nonsense", "wake_message": "m", "idempotency_key": "other"}`).says(400,
		`"field":"cron_expr"`)
	a.do(aliceToken, "POST", "/v1/alarms", `{"idempotency_key": "k", "fire_at": "tomorrow"}`).says(400,
		`"field":"fire_at"`)
	a.do(aliceToken, "POST", "/v1/alarms", `{"idempotency_key": "`+strings.Repeat("k", 256)+`"}`).says(400,
		`"field":"idempotency_key"`)
}

// Every answer is an envelope, also for a path that is not clean.
func TestPathsThatAreNotClean(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	for _, path := range []string{"//v1/alarms", "/v1//alarms", "/v1/./alarms", "/v1/x/../alarms", "//", "/v1/alarms/",
		"/v1/alarms//"} {
		for _, method := range []string{"GET", "POST"} {
			x := a.do(aliceToken, method, path, "").says(404, `"code":"not_found"`)
			if x.header.Get("Location") != "" {
				t.Errorf("%s %s leads to %s", method, path, x.header.Get("Location"))
			}
		}
	}
}

// After a reap, the owner sees that no delivery is running, when the next one is due, and why.
func TestAViewAfterAReap(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.claimed(once())
	f.lose()
	timer := f.timer(a.ID)
	list, err := f.store.ListAlarms(t.Context(), alice, 1)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, error %v", list, err)
	}
	for _, got := range []alarms.Alarm{f.get(a.ID), list[0]} {
		if got.ClaimedAt != nil || !got.NextFireAt.Equal(timer.DueAt) ||
			!strings.HasPrefix(got.LastError, "lease expired at ") {
			t.Errorf("claimed at %v, next %v, want %v, last error %q", got.ClaimedAt, got.NextFireAt, timer.DueAt,
				got.LastError)
		}
	}
	f.due(a.ID)
	h := newHanging()
	f.dispatch(h)
	receive(t, h.begun)
	if got := f.get(a.ID); got.ClaimedAt == nil {
		t.Errorf("got %+v", got)
	}
	h.answer <- nil
}
