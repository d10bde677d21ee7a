package webui_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/webui"
)

// A stream is what an open page listens to.
type stream struct {
	*http.Response
	lines *bufio.Reader
	end   context.CancelFunc
}

// listen opens a stream.
func (s *site) listen() *stream {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), pgtest.Patience)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+prefix+"/live", nil)
	must(s, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	must(s, err)
	l := &stream{response, bufio.NewReader(response.Body), cancel}
	s.Cleanup(l.close)
	return l
}

func (l *stream) close() {
	l.end()
	l.Body.Close()
}

// event returns the next event, or how the stream ends.
func (l *stream) event() (string, error) {
	for {
		line, err := l.lines.ReadString('\n')
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			return strings.TrimSpace(name), nil
		}
		if err != nil {
			return "", err
		}
	}
}

func TestAStreamTellsThatFiguresAreNew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/", http.StatusOK, `data-live="./live"`)
	s.lacks("/find", "data-live")
	l := s.listen()
	if kind := l.Header.Get("Content-Type"); l.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("the stream has status %d and type %q", l.StatusCode, kind)
	}
	if l.Header.Get("X-Accel-Buffering") != "no" || l.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a proxy may keep the stream: %v", l.Header)
	}
	// The figures, what the doctor says, and the figures again: the stream looks all the time.
	for told := 0; told < 3; {
		event, err := l.event()
		must(t, err)
		if event == "figures" {
			told++
		}
	}
}

// A stream ends soon after its user was withdrawn, and the next is refused.
func TestAStreamEndsWithTheRightToLook(t *testing.T) {
	t.Parallel()
	var withdrawn atomic.Bool
	s := newSite(t, func(c *webui.Config) {
		c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
			if withdrawn.Load() {
				return webui.User{}, webui.ErrForbidden
			}
			return webui.User{Name: "ann"}, nil
		}
	})
	l := s.listen()
	if event, err := l.event(); event != "beat" {
		t.Fatalf("the stream begins with %q: %v", event, err)
	}
	withdrawn.Store(true)
	for {
		if _, err := l.event(); err != nil {
			if err != io.EOF {
				t.Errorf("the stream does not end: %v", err)
			}
			break
		}
	}
	if l := s.listen(); l.StatusCode != http.StatusForbidden {
		t.Errorf("the next stream has status %d", l.StatusCode)
	}
}

// A server that shuts down does not wait for streams.
func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.listen()
	_, err := l.event()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	must(t, s.server.Config.Shutdown(ctx))
	for err == nil {
		_, err = l.event()
	}
	if err != io.EOF {
		t.Errorf("the stream ends with %v", err)
	}
}

// A server may be shut down twice, and streams that come meanwhile end as well.
func TestAServerShutsDownTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page, err := webui.New(webui.Config{Pool: s.db.Pool, Schema: s.db.Schema, Insecure: true})
	must(t, err)
	server := &http.Server{Handler: page}
	ask := func(path string) {
		ctx := context.WithValue(t.Context(), http.ServerContextKey, server)
		page.ServeHTTP(newRecorder(), newRequest(path).WithContext(ctx))
	}
	ask("/find")
	for range 2 {
		must(t, server.Shutdown(t.Context()))
	}
	ask("/live")
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var all []*stream
	for range 100 {
		l := s.listen()
		if all = append(all, l); l.StatusCode != http.StatusOK {
			t.Fatalf("stream %d has status %d", len(all), l.StatusCode)
		}
	}
	if l := s.listen(); l.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more has status %d", l.StatusCode)
	}
	s.shows("/", http.StatusOK)
	all[0].close()
	if !pgtest.Await(pgtest.Patience, func() bool { return s.listen().StatusCode == http.StatusOK }) {
		t.Error("a stream that has ended is still counted")
	}
}

// A server that cannot send what is written so far refuses streams, and pages are read at intervals.
func TestAStreamThatIsKeptBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page, err := webui.New(webui.Config{Pool: s.db.Pool, Schema: s.db.Schema, Insecure: true})
	must(t, err)
	server := httptest.NewServer(http.TimeoutHandler(page, time.Hour, "too late"))
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/live", nil)
	must(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err) // it ends
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d: %q", response.StatusCode, body)
	}
}

// Those who have a page open get what one of them has read of the same figures, but never what another one may see.
// Whoever opens it reads it.
func TestAnUpdateIsSharedAndAPageIsNot(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *webui.Config) {
		c.Refresh, c.Insecure, c.Actions = time.Hour, false, true
		c.Authenticate = func(r *http.Request) (webui.User, error) {
			user := webui.User{Name: r.Header.Get("As")}
			switch user.Name {
			case "operator":
				user.Role = webui.Operator
			case "clerk":
				user.Tables = []string{"timers"}
			}
			return user, nil
		}
	})
	s.read()
	update := func(user, path string) string {
		return s.send(http.MethodGet, path, http.Header{"As": {user}, "Txwork-Update": {"1"}}).body
	}
	is := func(what, body, text string, want bool) {
		t.Helper()
		if strings.Contains(body, text) != want {
			t.Errorf("%s shows %q: %v, want %v:\n%s", what, text, !want, want, content(body))
		}
	}
	is("a page without keys", update("ann", "/keys"), "key-of-ours", false)
	s.keyed("key-of-ours", "status = status")
	is("an update", update("ann", "/keys"), "key-of-ours", false)
	is("another viewer's update", update("bob", "/keys"), "key-of-ours", false)
	is("another viewer's update", update("bob", "/keys"), "bob", true)
	is("an update of another page", update("ann", "/keys?table=outbox"), "key-of-ours", true)
	is("a page that is opened", s.send(http.MethodGet, "/keys", http.Header{"As": {"ann"}}).body, "key-of-ours", true)
	is("an update of who sees less", update("clerk", "/"), "t/outbox/ready", false)
	is("an update of who sees all", update("ann", "/"), "t/outbox/ready", true)
	is("a viewer's update", update("ann", "/queues"), "<button>Pause", false)
	is("an operator's update", update("operator", "/keys"), "key-of-ours", true)
}

// An update after an action shows what the action has changed, although the figures are as old as before it.
func TestAnUpdateShowsWhatAnActionHasDone(t *testing.T) {
	t.Parallel()
	s := newSite(t, acting, func(c *webui.Config) { c.Refresh = time.Hour }).as("ann")
	s.read()
	blocked := func(path string) bool {
		return strings.Contains(s.send(http.MethodGet, path, http.Header{"Txwork-Update": {"1"}}).body,
			"Blocked by a dead letter")
	}
	for what, act := range map[string]func(id string){
		"row": func(id string) { s.post("/t/outbox/row/"+id+"/redrive", nil) },
		"chosen": func(id string) {
			s.post("/t/outbox/chosen/failed/redrive", url.Values{"id": {id}, "confirmed": {"1"}})
		},
		"filter": func(string) {
			form := s.confirm("/t/outbox/failed/redrive")
			s.post("/t/outbox/failed/redrive", form)
			s.ended(form.Get("action"))
		},
	} {
		id := s.keyed(what, "status = 3, attempts = 1, completed_at = now(), failed_at = now()")
		path := "/keys?of=" + what // a page that was not read yet
		if !blocked(path) {
			t.Errorf("%s: nothing is blocked before the action", what)
		}
		if act(id); blocked(path) {
			t.Errorf("%s: an update shows the page from before the action", what)
		}
	}
}

// What another process does is shown by the next update whose figures are new: nobody tells this one.
func TestAnUpdateShowsWhatAnotherProcessHasDone(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *webui.Config) { c.Refresh = 100 * time.Millisecond }).read()
	other := serve(t, s.db, acting).as("ann")
	id := s.keyed("k", "status = 3, attempts = 1, completed_at = now(), failed_at = now()")
	shown := func(blocked bool) bool {
		s.get("/") // as the stream of an open page does, this begins to read figures
		return blocked == strings.Contains(s.send(http.MethodGet, "/keys", http.Header{"Txwork-Update": {"1"}}).body,
			"Blocked by a dead letter")
	}
	if !pgtest.Await(pgtest.Patience, func() bool { return shown(true) }) {
		t.Fatal("nothing is blocked before the action")
	}
	other.post("/t/outbox/row/"+id+"/redrive", nil)
	if !pgtest.Await(pgtest.Patience, func() bool { return shown(false) }) {
		t.Error("updates show the page from before the action")
	}
}
