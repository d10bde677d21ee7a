package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/txwork/txwork/webui"
)

// What all tests share: they only read.
var (
	chromium context.Context
	shop     *Shop
	shared   *site
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, stop, err := Start(context.Background())
	if errors.Is(err, ErrNoChromium) {
		fmt.Println("!! SKIPPED:", err)
		return 0
	}
	if err == nil {
		defer stop()
		chromium = ctx
		shop, err = Open(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = serve(nil)
	code := m.Run()
	shared.Close()
	if err := shop.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prefix is where dashboards are mounted.
const prefix = "/admin/queues"

// A site serves a dashboard of the shop.
type site struct {
	*httptest.Server
	address string // of the root
}

// serve serves a dashboard, to everybody if nothing else is configured.
func serve(listener net.Listener, configure ...func(*webui.Config)) *site {
	c := webui.Config{Pool: shop.Pool, Insecure: true, Timeout: patience, StatementTimeout: patience,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, f := range configure {
		f(&c)
	}
	page, err := webui.New(c)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	s := httptest.NewUnstartedServer(mux)
	if listener != nil {
		s.Listener.Close()
		s.Listener = listener
	}
	s.Start()
	return &site{s, s.URL + prefix}
}

// stop ends the server although pages are open, whose streams would keep it for ever. Its listener is closed first,
// since they would be opened again.
func (s *site) stop() {
	s.Listener.Close()
	s.CloseClientConnections()
	s.Close()
}

// A tab is one of a browser of its own: it shares no cookies and no passwords with others.
type tab struct {
	*testing.T
	ctx  context.Context
	site *site

	mu       sync.Mutex
	expected []string // parts of complaints that are none
}

// newTab opens a tab. The test fails if a page complains, or asks for something at another address.
func newTab(t *testing.T, s *site) *tab {
	t.Helper()
	b := &tab{T: t, site: s}
	ctx, closeTab := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(),
		chromedp.WithListener(b.watch))
	t.Cleanup(closeTab)
	b.ctx = ctx
	must(t, Looks[0].set(ctx))
	must(t, chromedp.Do(ctx, chromedp.Func(focused)))
	return b
}

// focused gives the focus to a tab. Otherwise only one of them has it.
func focused(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return err
}

// watch is called with everything that the browser says of the tab.
func (b *tab) watch(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		address, err := url.Parse(e.Request.URL)
		if err == nil && address.Scheme == "data" { // the browser's own picture in a field of a time
			return
		}
		if err != nil || address.Hostname() != "127.0.0.1" {
			b.complain("a request to " + e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.complain(fmt.Sprintf("%s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.complain(fmt.Sprintf("console.%s", e.Type))
	case *log.EventEntryAdded: // violations of the Content-Security-Policy, and answers that are errors
		b.complain(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	}
}

func (b *tab) complain(of string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, expected := range b.expected {
		if strings.Contains(of, expected) {
			return
		}
	}
	b.Errorf("the browser says: %s", of)
}

// expects says that a complaint is what the test is about.
func (b *tab) expects(complaint string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, complaint)
}

// open opens a page, which has to show a text in the end.
func (b *tab) open(path, text string) *tab {
	b.Helper()
	must(b.T, open(b.ctx, b.site.address+path, text))
	return b
}

// do acts, and then waits until an expression is true.
func (b *tab) do(condition string, actions ...chromedp.Action[chromedp.Void]) *tab {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	must(b.T, chromedp.Do(ctx, actions...))
	if err := await(b.ctx, condition); err != nil {
		b.Fatalf("%v\non %s:\n%s", err, value[string](b, "location.href"), value[string](b, "document.body.innerText"))
	}
	return b
}

// script runs a statement, which may lead to another page.
func script(statement string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[any](statement+"; null")(ctx, t)
		return err
	})
}

// value evaluates an expression.
func value[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	must(b.T, err)
	return v
}

// signsIn sends a name and a password with every request, as browsers do that have asked for them.
func (b *tab) signsIn(name string) *tab {
	b.Helper()
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":password of "+name))
	must(b.T, chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders,
			network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": header}})
		return err
	})))
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
