package liveness

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// logCalls are the functions of an outbox that is a log, after which a client stays in its transaction. The
// subscription held has messages, and nobody else reads it.
func logCalls() (all []called) {
	const id = "00000000-0000-0000-0000-000000000001"
	const later = "$S.outbox_log_append('t', 'x', 'key of a client', id => '" + id +
		"', scheduled_at => now() + interval '1 hour')"
	const fetch = "$S.outbox_log_fetch('held', p.token, '1 minute', 1)"
	for _, sql := range [][]string{
		{"$S.outbox_log_append('t', 'x', 'key of a client', dedup_key => 'of a client')"},
		{later, "$S.outbox_log_turn('key of a client')"}, {later, "$S.outbox_log_cancel('{" + id + "}')"},
		{"$S.outbox_log_append_due(10)"}, {"CALL $S.outbox_log_tick()"}, {"CALL $S.outbox_log_trim()"},
		{fetch}, {fetch, "$S.outbox_log_extend('held', p.token, '1 minute')"},
		{fetch, "$S.outbox_log_release('held', p.token)"}, {fetch, "$S.outbox_log_unavailable('held', p.token, 'away')"},
		{fetch, "$S.outbox_log_settle('held', p.token, (SELECT q.page FROM $S.outbox_log_position AS q " +
			"WHERE q.owner_token = p.token), (SELECT jsonb_build_array(jsonb_build_object('seq', q.page)) " +
			"FROM $S.outbox_log_position AS q WHERE q.owner_token = p.token))"},
		{"$S.outbox_log_subscribe('of_a_client')"}, {"$S.outbox_log_change('held', '{t}', NULL)"},
		{"$S.outbox_log_pause('held')"}, {"$S.outbox_log_pause('held')", "$S.outbox_log_resume('held')"},
		{"$S.outbox_log_replay('held', '-infinity')"}, {"$S.outbox_log_cut('held', '0')"},
		{"$S.outbox_log_unsubscribe('held')"}, {"$S.outbox_log_lag()"},
		{"$S.outbox_log_moving()"}, {"$S.outbox_log_move_hindrance()"},
		{"$S.outbox_log_back_hindrance()"},
	} {
		all = append(all, called{sql: sql})
	}
	return all
}

// ofOwners are functions that others call, or only the owner of the tables. Those of parked messages are as of other
// tables; their trim keeps tickers waiting, and bounds how long its caller may be idle to a second.
var ofOwners = regexp.MustCompile(`_log_(shift|tick_step|outlived|thin|trim_slot|trim_dedup|least|move|rebase|storage|take_over|move_rows|rows_moved|dedup_moved|give_back|moved_back|dedup_back)$|_log_parked_`)

// Whoever holds a function of a log keeps no other subscription, and no producer, waiting.
func TestFunctionsOfALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up, err := migrations.SQL(migrations.FileOptions{Schema: w.Schema, Domains: []migrations.Domain{migrations.Log}})
	w.ok(err)
	w.exec(up)
	w.exec("CALL " + w.Schema + ".outbox_log_tick()")
	w.exec("SELECT " + w.Schema + ".outbox_log_subscribe('held')")
	for range 3 {
		w.exec("SELECT " + w.Schema + ".outbox_log_append('t', 'x', 'held')")
	}
	w.exec("CALL " + w.Schema + ".outbox_log_tick()")
	called := ""
	for i, c := range logCalls() {
		last := c.sql[len(c.sql)-1]
		called += last
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(last, "CALL "), "$S."), "(")
		t.Run(name, func(t *testing.T) {
			w := w.on(t)
			release := w.afterCall(c, workqueue.NewOwnerToken(), nil)
			ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
			defer cancel()
			w.ok(w.readsLog(ctx, fmt.Sprintf("bystander_%d", i)))
			release()
		})
	}
	for _, name := range w.list(`SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = $1::regnamespace
		AND prorettype <> 'trigger'::regtype AND starts_with(proname, 'outbox_log') ORDER BY 1`, w.Schema) {
		if !strings.Contains(called, "."+name+"(") && !ofOwners.MatchString(name) {
			t.Errorf("no client stays in its transaction after it has called %s: add it to logCalls", name)
		}
	}
}

// readsLog writes messages, and reads them as a subscription of its own.
func (w *world) readsLog(ctx context.Context, name string) error {
	do := func(sql string, args ...any) error {
		_, err := w.Pool.Exec(ctx, strings.ReplaceAll(sql, "$S", w.Schema), args...)
		return err
	}
	for _, sql := range []string{"CALL $S.outbox_log_tick()", "SELECT $S.outbox_log_subscribe('" + name + "')",
		"SELECT $S.outbox_log_append('t', '', '" + name + "'), $S.outbox_log_append('t', '')"} {
		if err := do(sql); err != nil {
			return err
		}
	}
	for read := 0; read < 2; {
		if err := do("CALL $S.outbox_log_tick()"); err != nil {
			return err
		}
		var rows int
		var upto *int64
		token := workqueue.NewOwnerToken()
		err := w.Pool.QueryRow(ctx, "SELECT count(*) FILTER (WHERE entry = 'row'), max(upto) FROM "+w.Schema+
			".outbox_log_fetch($1, $2, '1 minute', 10)", name, token).Scan(&rows, &upto)
		if err != nil {
			return err
		}
		if upto == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err := do("SELECT $S.outbox_log_settle($1, $2, $3)", name, token, *upto); err != nil {
			return err
		}
		read += rows
	}
	return do("SELECT $S.outbox_log_unsubscribe('" + name + "')")
}
