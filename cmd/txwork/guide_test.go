package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of the guide add an outbox to a service in a module of its own, with the code of the example.
func TestTheGuideToAnOutbox(t *testing.T) {
	t.Parallel()
	const example = "examples/shop"
	x := newTerminal(t)
	x.dir = newModule(t, example)
	received := make(chan string, 1)
	billing := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- r.Header.Get("Txwork-Topic") + " " + string(body)
	}))
	t.Cleanup(billing.Close)
	x.env = append(x.env, "DATABASE_URL="+x.url)

	var log bytes.Buffer
	var stop func()
	var address string
	for _, line := range commandsOf(t, "docs/add-an-outbox.md") {
		switch {
		case strings.HasPrefix(line, "go -C"): // installs the command, which this program is
		case strings.Contains(line, "serve"):
			x.run("go build -o shop .")
			var probes string
			address, probes = freeAddress(t), freeAddress(t)
			server := x.command("ADDR=" + address + " PROBES_ADDR=" + probes + " " + strings.NewReplacer(
				"http://127.0.0.1:9000/orders", billing.URL,
				"go run . serve", "exec ./shop serve").Replace(line)) // a signal to go run does not reach the program
			server.Stderr = &log
			must(t, server.Start())
			stop = func() {
				must(t, server.Process.Signal(os.Interrupt))
				must(t, server.Wait())
			}
			eventually(t, "the service is ready", func() bool {
				answer, err := http.Get("http://" + probes + "/readyz")
				if err != nil {
					return false
				}
				answer.Body.Close()
				return answer.StatusCode == http.StatusOK
			})
		case strings.HasPrefix(line, "curl"):
			x.run(strings.Replace(line, "127.0.0.1:8080", address, 1))
			if got, want := <-received, `order.placed {"id":"1","address":"Main Street 1"}`; got != want {
				t.Errorf("received %q, want %q", got, want)
			}
			eventually(t, "the message is done", func() bool { return x.count("status = 2") == 1 })
		default:
			x.run(line)
		}
	}
	stop()
	if !strings.Contains(log.String(), "has fewer connections than there are handlers") {
		t.Errorf("the service does not say that its pool is small:\n%s", &log)
	}
	source := ""
	for _, file := range []string{"main.go", "orders.go", "relay.go", "shop_test.go"} {
		source += contentOf(t, root, filepath.Join(example, file))
	}
	for _, b := range blocksOf(t, "docs/add-an-outbox.md", "go") {
		if !strings.Contains(source, b) {
			t.Errorf("the example is not what the page shows:\n%s", b)
		}
	}
}

// newModule copies an example to a module of its own, beside the clone, as a reader's service is. It has the versions
// of what it needs apart from txwork.
func newModule(t *testing.T, example string) (dir string) {
	t.Helper()
	clone, err := filepath.Abs(root)
	must(t, err)
	parent := t.TempDir()
	must(t, os.Symlink(clone, filepath.Join(parent, "txwork")))
	dir = filepath.Join(parent, "shop")
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, example))))
	module := "module shop\n\n"
	for line := range strings.Lines(contentOf(t, root, "examples/go.mod")) {
		switch name := strings.TrimSpace(line); {
		case strings.HasPrefix(name, "go "):
			module += name + "\n"
		case strings.HasPrefix(name, "github.com/jackc/pgx/v5 "),
			strings.HasPrefix(name, "github.com/pressly/goose/v3 "):
			module += "require " + name + "\n"
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(contentOf(t, root, "examples/go.sum")), 0o644))
	return dir
}

// freeAddress returns an address on which a program can listen.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
