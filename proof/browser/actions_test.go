package browser

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/webui"
)

// An operator redrives a row and discards all that match a filter; the audit says who did it. A viewer has no buttons.
func TestAnOperatorActs(t *testing.T) {
	t.Parallel()
	s := serve(nil, func(c *webui.Config) {
		c.Insecure, c.Actions = false, true
		c.Authenticate = func(r *http.Request) (webui.User, error) {
			user := webui.User{Role: webui.Viewer}
			if user.Name, _, _ = r.BasicAuth(); user.Name == "ann" {
				user.Role = webui.Operator
			}
			return user, nil
		}
	})
	t.Cleanup(s.Close)
	const letter = `INSERT INTO txwork.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
		VALUES ('recalls', '', 3, 1, now(), now(), 'the address is gone') RETURNING id`
	id := query[uuid.UUID](t, letter)
	for range 4 {
		query[uuid.UUID](t, letter)
	}
	bob := newTab(t, s).signsIn("bob").open("/t/outbox/row/"+id.String(), "the address is gone")
	if n := value[int](bob, `document.querySelectorAll("main form, main .deeds").length`); n != 0 {
		t.Errorf("a viewer sees %d forms", n)
	}
	ann := newTab(t, s).signsIn("ann").open("/t/outbox/row/"+id.String(), "the address is gone")
	ann.everyLook()
	ann.do(`document.querySelector(".badge.state") && !document.querySelector(".badge.failed")`,
		script(`document.querySelector('form[action$="/redrive"] button').click()`))
	ann.open("/t/outbox/failed?topic=recalls", "the address is gone")
	ann.everyLook()
	ann.do(`document.querySelector("main").innerText.includes("the 1 row that you have chosen")`,
		script(`document.querySelector('td.id input[type="checkbox"]').click()`),
		script(`document.querySelector('#chosen button[formaction$="/redrive"]').click()`))
	ann.everyLook()
	ann.do(`document.querySelector("h1").innerText === "outbox"`,
		script(`document.querySelector("main form button").click()`))
	ann.open("/t/outbox/failed?topic=recalls", "the address is gone")
	ann.do(`document.querySelector("h1").innerText === "Discard rows of outbox?" &&
		document.querySelector("main form button").innerText === "Discard 3 rows"`,
		script(`document.querySelector('.deeds a[href*="/discard"]').click()`))
	ann.everyLook()
	ann.do(`location.pathname.includes("/audit/") && document.querySelector("main").innerText.includes("ann")`,
		script(`document.querySelector("main form button").click()`))
	ann.everyLook()
	ann.open("/t/outbox/failed?topic=recalls", "No row in this state matches the filter")
	ann.open("/audit", "ann")
	ann.everyLook()
	ann.backfills()
}

// backfills writes the months that a schedule has missed, once they were shown.
func (b *tab) backfills() {
	b.open("/schedules", "monthly-report")
	b.do(`document.querySelector("h1").innerText === "Backfill schedule monthly-report"`,
		script(`document.querySelector('a[aria-label="backfill monthly-report"]').click()`))
	b.everyLook()
	b.do(`document.querySelector("main").innerText.includes("of the 2 rows of this range?")`,
		script(`document.querySelector('[name="from"]').value = "2026-01-15T00:00:00"`),
		script(`document.querySelector('[name="to"]').value = "2026-03-15T00:00:00"`),
		script(`document.querySelector('[name="zone"]').value = "America/New_York"`),
		script(`document.querySelector("form.filter button").click()`))
	b.everyLook()
	b.do(`document.querySelector("main").innerText.includes("All rows of this range exist")`,
		script(`document.querySelector("main form[method=post] button").click()`))
	b.everyLook()
}
