package browser

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/webui"
	"github.com/txwork/txwork/workqueue"
)

// often makes pages up to date soon.
func often(c *webui.Config) { c.Refresh = time.Second }

// scheduled is an expression for the number of timers that are due later, as the overview shows it.
const scheduled = `document.querySelector('a[href$="t/timers/scheduled"]').innerText`

// later writes a timer for a far future, and returns the condition that a page shows it.
func later(t *testing.T) string {
	t.Helper()
	must(t, workqueue.InTx(t.Context(), shop.Pool, func(tx workqueue.Tx) error {
		_, err := shop.timers.Set(t.Context(), tx, timers.Timer{Key: rand.Text(), Topic: "far", Delay: timers.MaxDelay})
		return err
	}))
	n := query[int](t, "SELECT count(*) FROM txwork.timers WHERE status = 0 AND due_at > now()")
	return fmt.Sprintf(`parseInt(%s) >= %d`, scheduled, n)
}

// All who look see a change without doing anything, and keep what they have opened.
func TestAChangeIsSeenByAll(t *testing.T) {
	t.Parallel()
	s := serve(nil, often)
	t.Cleanup(s.Close)
	one, other := newTab(t, s).open("/", "Longest running"), newTab(t, s).open("/", "Longest running")
	one.do(`document.querySelector("details").open`, chromedp.Click(chromedp.CSS("summary")))
	change := later(t)
	one.do(change)
	other.do(change)
	if !value[bool](one, `document.querySelector("details").open`) {
		t.Error("an update has closed what was open")
	}
}

// A page says that its server is away, and is up to date again when the server is back.
func TestTheServerRestarts(t *testing.T) {
	t.Parallel()
	s := serve(nil, often)
	b := newTab(t, s).open("/", "Longest running")
	b.expects("net::ERR_")
	at := s.Listener.Addr().String()
	s.stop()
	b.do(`document.getElementById("trouble").innerText.includes("Not up to date")`)
	listener, err := net.Listen("tcp", at)
	must(t, err)
	again := serve(listener, often)
	t.Cleanup(again.stop)
	b.do(later(t) + ` && document.getElementById("trouble").innerText === ""`)
}

// Who may no longer look sees no figures any more, without doing anything.
func TestAuthenticationIsWithdrawn(t *testing.T) {
	t.Parallel()
	var withdrawn atomic.Bool
	s := serve(nil, often, func(c *webui.Config) {
		c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
			if withdrawn.Load() {
				return webui.User{}, errors.New("withdrawn")
			}
			return webui.User{Name: "ann"}, nil
		}
	})
	t.Cleanup(s.Close)
	b := newTab(t, s).open("/", "Longest running")
	b.expects("status of 401")
	withdrawn.Store(true)
	b.do(`!document.body.innerText.includes("Longest running") && document.querySelector("h1") !== null`)
}
