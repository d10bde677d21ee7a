package alarms_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

// A listPage is the data of GET /v1/alarms.
type listPage struct {
	Alarms     []alarms.View
	Count      int
	NextCursor string `json:"next_cursor"`
}

// pages reads a whole list and returns the ids in its order. No answer may have more bytes than most.
func (a *api) pages(query string, most int) (ids []string) {
	a.Helper()
	for cursor := ""; ; {
		x := a.do(aliceToken, "GET", "/v1/alarms?"+query+"&cursor="+cursor, "").says(200)
		p := data[listPage](x)
		if len(x.body) > most || p.Count != len(p.Alarms) || p.Count == 0 && p.NextCursor != "" {
			a.Fatalf("%d alarms of %d in %d bytes, cursor %q", len(p.Alarms), p.Count, len(x.body), p.NextCursor)
		}
		for _, v := range p.Alarms {
			ids = append(ids, v.ID)
		}
		if cursor = p.NextCursor; cursor == "" {
			return ids
		}
	}
}

// The size of an answer is limited in bytes, however large the alarms are.
func TestAListIsPagedByBytes(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	var want []string
	n := once()
	n.WakeMessage, n.Payload = strings.Repeat("<", 250_000), []byte(`"`+strings.Repeat("&", 250_000)+`"`)
	for range 7 {
		want = append([]string{a.create(n).ID}, want...)
	}
	if got := a.pages("limit=500", 2<<20); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	body := a.do(aliceToken, "GET", "/v1/alarms?limit=1", "").says(200, `"count":1`).body
	if len(body) > 510_000 || bytes.Contains(body, []byte(`\u003c`)) {
		t.Errorf("an alarm of 500,000 bytes is answered as %d", len(body))
	}
}

// Alarms that were created at the same instant, for example by an import, are ordered by their ids.
func TestACursorSkipsAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	a.exec("INSERT INTO "+a.table+" (owner_did, user_id, kind, next_fire_at, wake_message) SELECT $1, 'u', 'once', "+
		"now() + interval '1 day', 'm' FROM generate_series(1, 123)", alice)
	a.exec("UPDATE " + a.table + " SET created_at = created_at + (random() * 3)::int * interval '1 us'")
	want := ask[[]string](a.fixture, "SELECT array_agg(id::text ORDER BY created_at DESC, id DESC) FROM "+a.table)
	for _, query := range []string{"limit=1", "limit=50", "limit=123", "limit=124", "limit="} {
		if got := a.pages(query, 1<<20); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d alarms, want %d in their order", query, len(got), len(want))
		}
	}
	for _, bad := range []string{"x", "AAAA", "MS54", "LTEuMQ"} {
		a.do(aliceToken, "GET", "/v1/alarms?cursor="+bad, "").says(400, `"field":"cursor"`)
	}
	a.do(bobToken, "GET", "/v1/alarms?cursor="+data[listPage](a.do(aliceToken, "GET", "/v1/alarms?limit=1",
		"")).NextCursor, "").
		says(200, `"count":0`)
}
