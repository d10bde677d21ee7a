package inboxhttp_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/internal/pgtest"
)

// While functions hold all connections, other messages are refused, and taken when one is free.
func TestMessagesDoNotQueueForAConnection(t *testing.T) {
	f := newFixture(t)
	f.Pool = pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = 2 }))
	begun, release := make(chan struct{}), make(chan struct{})
	within := func(wait time.Duration) func(*inboxhttp.Options) {
		return func(o *inboxhttp.Options) { o.MaxWait = wait }
	}
	short := within(100 * time.Millisecond)
	handle := func(_ context.Context, m *inboxhttp.Message) error {
		if strings.HasPrefix(m.ID, "slow") {
			begun <- struct{}{}
			<-release
		}
		return nil
	}
	patient, url := f.process(handle, within(time.Hour)), f.process(handle, short)
	store, err := inboxhttp.Receive(f.Pool, f.box, inboxhttp.ReceiveOptions{Options: f.options(short)})
	must(t, err)
	var slow sync.WaitGroup
	for _, id := range []string{"slow 1", "slow 2"} {
		slow.Go(func() {
			if got := f.post(patient, id, ""); got.status != http.StatusOK {
				t.Errorf("a slow message is answered by %+v", got)
			}
		})
	}
	<-begun
	<-begun
	stored := f.serve(store)
	for _, url := range []string{url, stored} {
		if got := f.post(url, "another", ""); got.status != http.StatusServiceUnavailable || got.retryAfter != "1" {
			t.Errorf("while there is no connection, a message is answered by %+v", got)
		}
	}
	close(release)
	slow.Wait()
	if got := f.post(patient, "another", ""); got.status != http.StatusOK {
		t.Errorf("with a connection, it is answered by %+v", got)
	}
	if n := f.effects(); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
	if !strings.Contains(f.logs.String(), "level=WARN msg=\"inbox message was not taken\"") {
		t.Errorf("the log is %s", f.logs)
	}
}

// A panic is answered and logged like an error. One that asks for a broken connection breaks it.
func TestPanicsAreAnswered(t *testing.T) {
	f := newFixture(t)
	url := f.process(func(_ context.Context, m *inboxhttp.Message) error {
		switch m.ID {
		case "panics":
			panic("no such price")
		case "aborts":
			panic(http.ErrAbortHandler)
		}
		return nil
	})
	if got := f.post(url, "panics", ""); got.status != http.StatusInternalServerError ||
		strings.Contains(got.text, "price") {
		t.Errorf("a panic is answered by %+v", got)
	}
	if logged := f.logs.String(); !strings.Contains(logged, "no such price") ||
		!strings.Contains(logged, "wait_test.go") ||
		!strings.Contains(logged, "message_id=panics") {
		t.Errorf("the log is %s", logged)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	must(t, err)
	request.Header.Set(inboxhttp.DefaultKeyHeader, "aborts")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if response, err := client.Do(request); err == nil {
		response.Body.Close()
		t.Errorf("a handler that aborts is answered by %d", response.StatusCode)
	}
	if n := f.effects(); n != 0 {
		t.Errorf("%d effects, want none", n)
	}
	for what, change := range map[string]func(*inboxhttp.Options){
		"verify": func(o *inboxhttp.Options) {
			o.Verify = func(*http.Request, []byte) (inboxhttp.Verified, error) { panic("no secret") }
		},
		"topic": func(o *inboxhttp.Options) { o.Topic = func(*http.Request) string { panic("no secret") } },
	} {
		url := f.process(func(context.Context, *inboxhttp.Message) error { return nil }, change)
		if got := f.post(url, "1", ""); got.status != http.StatusInternalServerError {
			t.Errorf("%s: a panic is answered by %+v", what, got)
		}
		if !strings.Contains(f.logs.String(), "no secret") {
			t.Errorf("%s: the log is %s", what, f.logs)
		}
	}
}
