package alarms_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
)

var update = flag.Bool("update", false, "write what was seen into docs/alarms.md")

const docFile = "../../docs/alarms.md"

// A session replaces what differs between runs: the first id that it sees becomes 11111111-…, the next 22222222-….
type session struct {
	env []string
	ids []string // real ids, in the order in which they were seen
}

var (
	idPattern        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	momentPattern    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	numberPattern    = regexp.MustCompile(`(alarm_[0-9a-f-]{36}_)\d+`)
	timestampPattern = regexp.MustCompile(`(?m)^(webhook-timestamp: )\d+`)
	signaturePattern = regexp.MustCompile(`v1,[A-Za-z0-9+/=]{44}`)
	consolePattern   = regexp.MustCompile("(?s)```console\n(.*?)```")
	httpPattern      = regexp.MustCompile("(?s)```http\n(.*?)```")
)

const (
	shownMoment = "2030-01-31T09:00:00Z"
	shownMicros = "1896080400000000"
)

func shownID(i int) string {
	d := fmt.Sprint(i + 1)
	r := func(n int) string { return strings.Repeat(d, n) }
	return r(8) + "-" + r(4) + "-4" + r(3) + "-8" + r(3) + "-" + r(12)
}

// show returns a text as the document shows it.
func (s *session) show(text string) string {
	text = idPattern.ReplaceAllStringFunc(text, func(id string) string {
		if id == shownID(8) { // the id in the document that no alarm has
			return id
		}
		i := slices.Index(s.ids, id)
		if i < 0 {
			i, s.ids = len(s.ids), append(s.ids, id)
		}
		return shownID(i)
	})
	text = momentPattern.ReplaceAllString(text, shownMoment)
	text = numberPattern.ReplaceAllString(text, "${1}"+shownMicros)
	text = timestampPattern.ReplaceAllString(text, "${1}1896080400")
	return signaturePattern.ReplaceAllString(text, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
}

// real replaces the document's ids in a command by real ones.
func (s *session) real(command string) string {
	for i, id := range s.ids {
		command = strings.ReplaceAll(command, shownID(i), id)
	}
	return command
}

// console runs the commands of a block, and returns the block with their real output.
func (s *session) console(t *testing.T, block string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(block) {
		command, found := strings.CutPrefix(line, "$ ")
		if !found {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", s.real(command))
		cmd.Env = append(os.Environ(), s.env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
		b.WriteString(line + s.show(string(out)))
	}
	return b.String()
}

// The document's session shows what the commands print.
func TestTheDocumentsSession(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	text, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, alarms.ServerOptions{})
	server := httptest.NewServer(a.server)
	defer server.Close()
	s := &session{env: []string{"ALARMS=" + server.URL, "AUTH=Authorization: Bearer " + aliceToken}}
	want := a.replay(t, s, string(text))
	want = region(want, "ladder", ladder())
	if want == string(text) {
		return
	}
	if !*update {
		t.Errorf("%s is not what happens: run go test -run TheDocumentsSession -update, and look at the change",
			docFile)
		return
	}
	if err := os.WriteFile(docFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replay runs the document's blocks in their order. The block of HTTP contains the first alarm's wake, for which the
// document pretends to have waited.
func (a *api) replay(t *testing.T, s *session, text string) string {
	before, after, _ := strings.Cut(text, "```http\n")
	before = consolePattern.ReplaceAllStringFunc(before, func(block string) string {
		return "```console\n" + s.console(t, consolePattern.FindStringSubmatch(block)[1]) + "```"
	})
	wake := "```http\n" + s.show(a.firstWake(t, s.ids[0])) + "```"
	after = consolePattern.ReplaceAllStringFunc("```http\n"+after, func(block string) string {
		return "```console\n" + s.console(t, consolePattern.FindStringSubmatch(block)[1]) + "```"
	})
	return before + httpPattern.ReplaceAllLiteralString(after, wake)
}

// firstWake delivers an alarm, and returns the request that its receiver gets.
func (a *api) firstWake(t *testing.T, id string) string {
	requests := make(chan string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var b strings.Builder
		fmt.Fprintf(&b, "POST /wake HTTP/1.1\nhost: agents.example.org\n")
		for _, name := range []string{"content-type", "webhook-id", "webhook-timestamp", "webhook-signature"} {
			fmt.Fprintf(&b, "%s: %s\n", name, r.Header.Get(name))
		}
		fmt.Fprintf(&b, "\n%s\n", body)
		requests <- b.String()
	})
	stop := a.dispatch(newHTTPWaker(t, alarms.HTTPWakerOptions{URL: url, Secrets: []string{oldSecret},
		AllowPrivate: true}))
	a.due(id)
	request := receive(t, requests)
	a.until("it has fired", func() bool { return a.get(id).Status == alarms.StatusFired })
	stop()
	return request
}

// region replaces the text between two marks.
func region(text, name, content string) string {
	open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, _ := strings.Cut(text, open)
	_, after, _ := strings.Cut(rest, end)
	return before + open + content + end + after
}

func ladder() string {
	var b strings.Builder
	b.WriteString("| failed deliveries | the next after |\n|---|---|\n")
	for n := 1; n <= 6; n++ {
		more := ""
		if n == 6 {
			more = " and more"
		}
		fmt.Fprintf(&b, "| %d%s | %s |\n", n, more, strings.ReplaceAll(alarms.Ladder.Delay(n).String(), "m0s", "m"))
	}
	return b.String()
}

// Clients that were written for the contract's field names must find them.
func TestAViewHasTheContractsNames(t *testing.T) {
	t.Parallel()
	now := alarms.Alarm{Status: alarms.StatusActive}
	body, err := json.Marshal(alarms.ViewOf(now))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"","label":"","kind":"","next_fire_at":"0001-01-01T00:00:00Z","wake_message":"","status":"active","max_failures":0,"failure_count":0,"created_at":"0001-01-01T00:00:00Z"}`
	if !bytes.Equal(body, []byte(want)) {
		t.Errorf("got %s", body)
	}
	now.Status = alarms.StatusFired
	if alarms.ViewOf(now).NextFireAt != nil {
		t.Error("an alarm that has ended has a next time")
	}
}
