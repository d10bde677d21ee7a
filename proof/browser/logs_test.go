package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/webui"
)

// The page of a log with a subscription that is behind and has lost messages, that of a message, and what is parked are
// right in every look. The shop has no log, so this one is in a schema of its own.
func TestALog(t *testing.T) {
	t.Parallel()
	const schema = "shop_log"
	m, err := migrations.New(shop.Pool, migrations.Options{Schema: schema, Domains: migrations.Domains(),
		Logger: quiet.Logger})
	must(t, err)
	_, err = m.Up(t.Context())
	must(t, err)
	run := func(statement string) {
		t.Helper()
		_, err := shop.Pool.Exec(t.Context(), statement)
		must(t, err)
	}
	run(`SELECT shop_log.outbox_log_subscribe('search', start => '-infinity', lanes => 4)`)
	run(`SELECT shop_log.outbox_log_subscribe('audit', start => '-infinity')`)
	run(`INSERT INTO shop_log.outbox_log (xid, topic, key, headers, payload)
		SELECT (pg_current_xact_id()::text)::bigint, 'order.placed', 'customer-' || i % 9, '{"source": "shop"}',
			convert_to('{"order": ' || i || '}', 'UTF8') FROM generate_series(1, 300) AS i`)
	run(`INSERT INTO shop_log.outbox_log_loss VALUES ('search', 1, now(), 1, 2, 77, now(), now(), 'cut')`)
	run(`INSERT INTO shop_log.outbox_log_parked (seq, appended_at, message_id, subscription, topic, payload)
		SELECT i, now(), gen_random_uuid(), 'search', 'order.placed', '' FROM generate_series(1, 5) AS i`)
	s := serve(nil, func(c *webui.Config) { c.Schema = schema })
	t.Cleanup(s.Close)
	id := query[uuid.UUID](t, `SELECT id FROM shop_log.outbox_log LIMIT 1`)
	b := newTab(t, s)
	b.open("/logs", "Losses").everyLook()
	b.open("/logs/"+id.String(), `"order"`).everyLook()
	b.open("/t/outbox_log_parked/ready?subscription=search", "order.placed").everyLook()
	b.expects("status of 404")
	b.do(`document.querySelector("h1").innerText === "The message is not there"`,
		chromedp.Navigate(s.address+"/logs/"+uuid.NewString()))
}
