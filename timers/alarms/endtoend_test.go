package alarms_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/webhook"
	"github.com/txwork/txwork/workqueue"
)

// A receiver is a real HTTP server that receives wakes. Its answer can be changed while it runs.
type receiver struct {
	url    string
	got    chan received
	answer atomic.Pointer[http.HandlerFunc]
	gone   chan bool // closed when hanging requests may end
}

type received struct {
	wake alarms.Wake
	id   string
	err  error // the result of verifying the signature
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	signer, err := webhook.NewSigner(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{got: make(chan received, 100), gone: make(chan bool)}
	r.answers(func(http.ResponseWriter, *http.Request) {})
	r.url = serve(t, func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		id, unsigned := signer.Verify(request.Header, body, 0)
		got := received{id: id}
		got.err = errors.Join(err, unsigned, json.Unmarshal(body, &got.wake))
		r.got <- got
		(*r.answer.Load())(w, request)
	})
	t.Cleanup(func() { close(r.gone) })
	return r
}

func (r *receiver) answers(h http.HandlerFunc) { r.answer.Store(&h) }

// hangs is how long a delivery waits for an answer, which others do not exceed on a machine that is busy.
const hangs = 4 * time.Second

// newInstallation starts a whole installation: the REST API and a dispatcher on one database, and a receiver.
func newInstallation(t *testing.T) (*api, *receiver) {
	t.Helper()
	a, r := newAPI(t, alarms.ServerOptions{Rate: -1}), newReceiver(t)
	a.dispatch(newHTTPWaker(t, alarms.HTTPWakerOptions{URL: r.url, Secrets: []string{newSecret, oldSecret},
		Timeout: hangs, AllowPrivate: true}))
	return a, r
}

func (a *api) post(body string) (id string) {
	a.Helper()
	return data[struct{ ID string }](a.do(aliceToken, "POST", "/v1/alarms", body).says(200)).ID
}

func (a *api) view(id string) alarms.View {
	a.Helper()
	return data[alarms.View](a.do(aliceToken, "GET", "/v1/alarms/"+id, "").says(200))
}

// The receiver fails, hangs, redirects and recovers. Each delivery happens after the delay of the Ladder, and all of
// them identify the same firing.
func TestAReceiverThatFailsHangsAndRecovers(t *testing.T) {
	t.Parallel()
	a, r := newInstallation(t)
	id := a.post(`{"kind": "once", "delay_seconds": 3600, "wake_message": "resume at 241", "payload": {"cursor": 240}, "conversation_id": "conv"}`)
	nominal := *a.view(id).NextFireAt
	steps := []struct {
		answer http.HandlerFunc
		delay  time.Duration
		says   string
	}{
		{func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "disk full", http.StatusInternalServerError)
		}, 30 * time.Second, "500 Internal Server Error: disk full"},
		{func(http.ResponseWriter, *http.Request) { <-r.gone }, time.Minute, "no answer within " + hangs.String()},
		{func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/elsewhere", http.StatusFound) },
			2 * time.Minute, "302 Found"},
		{func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.Close()
		}, 4 * time.Minute, "the connection to the receiver failed"},
	}
	for i, step := range steps {
		r.answers(step.answer)
		a.due(id)
		got := receive(t, r.got)
		w := got.wake
		if got.err != nil || w.AlarmID != id || w.Message != "resume at 241" ||
			!sameJSON(t, w.Payload, []byte(`{"cursor":240}`)) || w.ConversationID != "conv" ||
			w.UserID != aliceUser || !w.FireAt.Equal(nominal) || w.Attempt != i+1 || got.id != w.ID() {
			t.Errorf("delivery %d: %+v", i+1, got)
		}
		a.until("the failure is recorded", func() bool { return a.view(id).FailureCount == i+1 })
		v, row := a.view(id), a.get(id)
		if v.Status != "active" || !strings.Contains(v.LastError, step.says) ||
			row.NextFireAt.Sub(row.UpdatedAt) != step.delay {
			t.Errorf("delivery %d: %+v, the next %v later", i+1, v, row.NextFireAt.Sub(row.UpdatedAt))
		}
	}
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	a.due(id)
	if last := receive(t, r.got); last.wake.Attempt != 5 || !last.wake.FireAt.Equal(nominal) {
		t.Errorf("got %+v", last)
	}
	a.until("it has fired", func() bool { return a.view(id).Status == "fired" })
	if v := a.view(id); v.FailureCount != 0 || v.LastError != "" || v.LastFiredAt == nil || v.NextFireAt != nil {
		t.Errorf("got %+v", v)
	}
	if len(r.got) > 0 {
		t.Errorf("%d deliveries more", len(r.got))
	}
}

func TestACancelDuringAHangingDeliveryStays(t *testing.T) {
	t.Parallel()
	a, r := newInstallation(t)
	hanging := make(chan bool)
	r.answers(func(http.ResponseWriter, *http.Request) { <-hanging })
	for _, body := range []string{
		`{"kind": "once", "delay_seconds": 3600, "wake_message": "m"}`,
		`{"kind": "cron", "cron_expr": "@hourly", "wake_message": "m"}`,
	} {
		id := a.post(body)
		a.due(id)
		receive(t, r.got)
		a.do(aliceToken, "DELETE", "/v1/alarms/"+id, "").says(200, `"status":"cancelled"`)
		a.until("the timer has ended", func() bool { return a.timer(id).Status == workqueue.Failed })
		if v := a.view(id); v.Status != "cancelled" || v.FailureCount != 0 || v.LastError != "" ||
			v.LastFiredAt != nil {
			t.Errorf("got %+v", v)
		}
	}
	close(hanging)
	if len(r.got) > 0 {
		t.Errorf("%d deliveries more", len(r.got))
	}
}

func TestAReceiverThatNeverRecovers(t *testing.T) {
	t.Parallel()
	a, r := newInstallation(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	id := a.post(`{"kind": "once", "delay_seconds": 3600, "wake_message": "m", "max_failures": 2}`)
	for i := range 2 {
		a.due(id)
		receive(t, r.got)
		a.until("the failure is recorded", func() bool { return a.view(id).FailureCount == i+1 })
	}
	a.until("it has failed", func() bool { return a.view(id).Status == "failed" })
	if v := a.view(id); !strings.Contains(v.LastError, "503") || v.NextFireAt != nil {
		t.Errorf("got %+v", v)
	}
}
