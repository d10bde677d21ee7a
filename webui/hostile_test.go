package webui_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/webui"
)

// What a page is asked for stands in its address. A body could be of any size, would be kept in files that nobody
// removes, and could take as long as its sender likes, in the turn of the page.
func TestABodyIsNotRead(t *testing.T) {
	s := newSite(t)
	s.fill()
	t.Setenv("TMPDIR", t.TempDir())
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	must(t, w.WriteField("topic", "none"))
	part, err := w.CreateFormFile("file", "large")
	must(t, err)
	_, err = part.Write(bytes.Repeat([]byte("x"), 40<<20))
	must(t, err)
	must(t, w.Close())
	for _, path := range []string{"/t/outbox/ready", "/find", "/schedules", "/assets/style.css"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+prefix+path,
			bytes.NewReader(body.Bytes()))
		must(t, err)
		r.Header.Set("Content-Type", w.FormDataContentType())
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil { // otherwise the server has closed the connection, because it does not read so much
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if strings.Contains(string(text), "No row in this state matches") {
				t.Errorf("%s: a body has filtered the rows", path)
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	files, err := os.ReadDir(os.Getenv("TMPDIR"))
	must(t, err)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "multipart-") {
			t.Errorf("a file is left: %s", f.Name())
		}
	}
}

// A body that is announced and does not come holds up nothing. The connection is closed, since the rest of it could
// still come.
func TestABodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c, err := net.Dial("tcp", s.server.Listener.Addr().String())
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(pgtest.Patience)))
	_, err = io.WriteString(c, "GET "+prefix+"/assets/style.css HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
	must(t, err)
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("there is no answer: %v, %q", err, text)
	}
}

// The indentation of deeply nested JSON would be thousands of times as large as the payload.
func TestDeeplyNestedPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const depth = 5000
	nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	s.exec(`INSERT INTO {schema}.outbox (topic, payload, headers) VALUES ('t', convert_to($1, 'UTF8'),
		jsonb_build_object('h', $1::jsonb))`, nested)
	body := s.get("/t/outbox/row/" + s.id("SELECT id FROM {schema}.outbox")).body
	if len(body) > 1<<20 || strings.Count(body, "[[[[[[[[") == 0 {
		t.Errorf("the page of a payload of %d bytes has %d", len(nested), len(body))
	}
}

// Who computes the tables of a user, and finds none, has not asked for all.
func TestAUserOfNoTablesSeesNone(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *webui.Config) {
		c.Insecure = false
		c.Authenticate = func(*http.Request) (webui.User, error) {
			return webui.User{Name: "nobody", Tables: []string{}}, nil
		}
	})
	s.fill()
	for _, path := range []string{"/", "/t/jobs/ready", "/dead", "/find?q=x", "/queues", "/schedules"} {
		s.shows(path, http.StatusForbidden, "User nobody sees none of the tables")
	}
}
