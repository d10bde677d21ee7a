package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/txwork/txwork/webui"
)

// rowsListed is an expression for the number of rows of a list.
const rowsListed = `document.querySelectorAll("td.id").length`

// query returns what a statement returns of the shop.
func query[T any](t *testing.T, statement string, args ...any) (v T) {
	t.Helper()
	must(t, shop.Pool.QueryRow(t.Context(), statement, args...).Scan(&v))
	return v
}

// A list is filtered by its form, the back button removes the filter, and the address of a filtered list can be shared.
func TestAListIsFilteredAndShared(t *testing.T) {
	t.Parallel()
	want := query[int](t, "SELECT count(*) FROM txwork.jobs WHERE status = 3 AND last_error LIKE '%expired%'")
	b := newTab(t, shared).open("/t/jobs/failed", "has expired")
	all := value[int](b, rowsListed)
	filtered := fmt.Sprintf(`location.search.includes("error=expired") && %s === %d &&
		document.querySelector("input[name=error]").value === "expired"`, rowsListed, want)
	b.do(filtered, chromedp.SendKeys(chromedp.CSS("input[name=error]"), "expired"+kb.Enter))
	newTab(t, shared).do(filtered, chromedp.Navigate(value[string](b, "location.href")))
	b.do(fmt.Sprintf(`location.search === "" && %s === %d`, rowsListed, all), script("history.back()"))
	b.do(filtered, script("history.forward()"))
	b.do(fmt.Sprintf(`%s === %d`, rowsListed, all), script(`document.querySelector(".filter .button").click()`))
}

// Pages of a list are gone through by their links and by the back button.
func TestAListIsPaged(t *testing.T) {
	t.Parallel()
	const first = `document.querySelector("td.id").innerText`
	b := newTab(t, shared).open("/t/outbox/done?limit=20", "Next page")
	at := value[string](b, first)
	b.do(fmt.Sprintf(`%s !== %q && %s === 20`, first, at, rowsListed), chromedp.Click(chromedp.CSS("a[rel=next]")))
	b.do(fmt.Sprintf(`%s === %q`, first, at), script("history.back()"))
}

// Nobody needs a mouse: all links are reached, what has the focus can be seen, and / leads to the search.
func TestAKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	s := serve(nil, func(c *webui.Config) { c.Refresh = time.Hour }) // the page stays as it is
	t.Cleanup(s.Close)
	b := newTab(t, s).open("/", "Longest running")
	b.do(`document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().left >= 0`,
		chromedp.KeyEvent(kb.Tab))
	reached := 1
	for reached < 500 {
		must(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.Tab)))
		if value[bool](b, `document.activeElement === document.body || document.activeElement.matches(".skip")`) {
			break
		}
		reached++
		if !value[bool](b, focusIsSeen) {
			t.Errorf("nobody sees that this has the focus: %s", value[string](b, "document.activeElement.outerHTML"))
		}
	}
	if want := value[int](b, focusable); reached != want {
		t.Errorf("%d elements are reached with the tab key, want %d", reached, want)
	}
	b.do(`document.querySelector("details").open`,
		chromedp.Focus(chromedp.CSS("summary")), chromedp.KeyEvent(kb.Enter))
	b.do(`location.pathname.endsWith("/t/jobs/failed")`,
		chromedp.Focus(chromedp.CSS(`a[href$="t/jobs/failed"]`)), chromedp.KeyEvent(kb.Enter))
	id := query[string](t, "SELECT id FROM txwork.timers LIMIT 1")
	b.do(`document.activeElement.id === "q"`, slash)
	b.do(fmt.Sprintf(`location.pathname.endsWith("/t/timers/row/%s")`, id), chromedp.KeyEvent(id+kb.Enter))
}

const (
	focusIsSeen = `(e => { const s = getComputedStyle(e), r = e.getBoundingClientRect();
		return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.bottom > 0 && r.top < innerHeight;
	})(document.activeElement)`
	focusable = `[...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")]
		.filter(e => e.checkVisibility()).length`
)

// slash presses the key. What chromedp sends would also be typed into the field that has the focus then.
func slash(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	return cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "/", Text: "/"})
}

// Two viewers see the same page at the same time, each with their own rights.
func TestTwoViewersAtOnce(t *testing.T) {
	t.Parallel()
	hash, err := webui.HashPassword("password of ann")
	must(t, err)
	other, err := webui.HashPassword("password of bob")
	must(t, err)
	accounts, err := webui.NewAccounts(
		webui.Account{User: webui.User{Name: "ann", Role: webui.Operator}, PasswordHash: hash},
		webui.Account{User: webui.User{Name: "bob", Tables: []string{"outbox"}}, PasswordHash: other})
	must(t, err)
	s := serve(nil, func(c *webui.Config) {
		c.Insecure, c.Authenticate, c.HideContent = false, accounts.Authenticate, true
	})
	t.Cleanup(s.Close)
	ann, bob := newTab(t, s).signsIn("ann"), newTab(t, s).signsIn("bob")
	row := "/t/outbox/row/" + query[string](t, "SELECT id FROM txwork.outbox WHERE status = 2 ORDER BY id LIMIT 1")
	ann.open(row, `"EUR"`)
	bob.open(row, "shown to operators only")
	if text := value[string](bob, "document.body.innerText"); strings.Contains(text, "EUR") ||
		!strings.Contains(text, "signed in as bob") {
		t.Errorf("bob sees:\n%s", text)
	}
	bob.expects("status of 404")
	bob.do(`document.body.innerText.includes("There is no such table")`,
		chromedp.Navigate(s.address+"/t/jobs/failed"))
	ann.open("/t/jobs/failed", "has expired")
}

// Nothing that a row says is run or loaded.
func TestWhatRowsSayIsText(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror="document.title='evil'"><script>document.title='evil'</script>`
	id := query[string](t, `INSERT INTO txwork.outbox (topic, payload, headers, status, attempts, completed_at, failed_at,
			last_error) VALUES ($1, convert_to($1, 'UTF8'), jsonb_build_object($1::text, $1::text), 3, 1, now(), now(), $1)
		RETURNING id`, evil)
	b := newTab(t, shared)
	for _, path := range []string{"/t/outbox/failed", "/dead", "/t/outbox/failed?topic=" + url.QueryEscape(evil)} {
		b.open(path, "")
		if title := value[string](b, "document.title"); title == "evil" {
			t.Errorf("%s runs what a row says", path)
		}
	}
	b.open("/t/outbox/row/"+id, evil)
}

// A request that signs nobody in shows how to sign in, and no figures.
func TestWhoIsNotSignedInSeesNothing(t *testing.T) {
	t.Parallel()
	s := serve(nil, func(c *webui.Config) {
		c.Insecure, c.Authenticate = false, func(*http.Request) (webui.User, error) {
			return webui.User{}, errors.New("nobody")
		}
	})
	t.Cleanup(s.Close)
	b := newTab(t, s)
	b.expects("status of 401")
	b.do(`document.querySelector("h1").innerText === "Who are you?" && !document.querySelector("nav")`,
		chromedp.Navigate(s.address+"/"))
}
