package browser

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// warehouse is the schema of a second program, without workers: its outbox has a log, it has alarms, and an operator
// has given up many of its rows.
const warehouse = "warehouse"

// stock fills the warehouse.
func (s *Shop) stock(ctx context.Context) error {
	m, err := migrations.New(s.Pool, migrations.Options{Schema: warehouse, Domains: migrations.Domains(),
		Logger: quiet.Logger})
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	for _, statement := range []string{
		`SELECT warehouse.outbox_log_subscribe('search', start => '-infinity', lanes => 4)`,
		`SELECT warehouse.outbox_log_subscribe('audit', start => '-infinity')`,
		`SELECT warehouse.outbox_log_subscribe('billing', topics => '{order.*}', max_age => interval '3 days')`,
		`INSERT INTO warehouse.outbox_log (xid, topic, key, headers, payload)
			SELECT (pg_current_xact_id()::text)::bigint, 'order.placed', 'customer-' || i % 9, '{"source": "shop"}',
				convert_to('{"order": ' || i || ', "total": {"amount": "' || 5 + i % 90 || '.00", "currency": "EUR"}}', 'UTF8')
			FROM generate_series(1, 300) AS i`,
		`INSERT INTO warehouse.outbox_log_loss VALUES ('search', 1, now(), 1, 2, 77, now(), now(), 'cut')`,
		`INSERT INTO warehouse.outbox_log_parked (seq, appended_at, message_id, subscription, topic, payload)
			SELECT i, now(), gen_random_uuid(), 'search', 'order.placed', '' FROM generate_series(1, 5) AS i`,
		`INSERT INTO warehouse.alarms (owner_did, user_id, label, kind, cron_expr, next_fire_at, last_fired_at, wake_message,
				failure_count, last_error)
			SELECT 'did:example:' || owner, owner, label, CASE expr WHEN '' THEN 'once' ELSE 'cron' END, expr, now() + due,
				now() - interval '20 hours', 'wake', failures, error
			FROM (VALUES ('ann', 'stand-up', '30 9 * * 1-5', interval '3 hours', 0, ''),
				('ann', 'water the plants', '@daily', interval '7 hours', 0, ''),
				('bob', 'renew the passport', '', interval '9 days', 0, ''),
				('eve', 'night shift', '0 22 * * *', interval '40 minutes', 2, 'POST https://phone.example/wake: 503'))
				AS a (owner, label, expr, due, failures, error)`,
		`INSERT INTO warehouse.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
			SELECT 'recalls', '', 3, 1, now() - i * interval '1 s', now() - i * interval '1 s', 'the address is gone'
			FROM generate_series(1, 1400) AS i`,
		`INSERT INTO warehouse.outbox (topic, payload, status, attempts, completed_at, failed_at, last_error)
			SELECT 'letters', '', 3, 1, now() - i * interval '1 min', now() - i * interval '1 min', 'no such mailbox'
			FROM generate_series(1, 9) AS i`,
	} {
		if _, err := s.Pool.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	return s.giveUp(ctx)
}

// giveUp discards many rows by a filter, as an operator.
func (s *Shop) giveUp(ctx context.Context) error {
	db := operate.DB{Pool: s.Pool, Schema: warehouse, Actor: operate.Actor{Who: "ann", Origin: "192.0.2.7"}}
	table, err := workqueue.Open(workqueue.Spec{Schema: warehouse, Table: "outbox"}, quiet)
	if err != nil {
		return err
	}
	o := operate.Order{Action: uuid.New(), Table: "outbox", Verb: "discard", Args: []any{"the recall is over"},
		States: []string{"failed"}, Filter: operate.Filter{Topic: "recalls"}}
	if o.Before, err = db.Now(ctx); err != nil {
		return err
	}
	o.Found(1400, false)
	return db.Start(ctx, table, o, func(int) {})
}
