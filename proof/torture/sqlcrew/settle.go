package sqlcrew

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// settle settles rows until there are no more, many in one call where it can.
func (t *table) settle() {
	s := &session{config: t.worker.Connect}
	defer s.close()
	for r := range t.ended {
		rows := []*Row{r}
		for more := true; more && len(rows) < settleBatch; {
			select {
			case next, open := <-t.ended:
				if more = open; open {
					rows = append(rows, next)
				}
			default:
				more = false
			}
		}
		t.settleAll(s, slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool { return r.completed }))
		t.worker.Settled()
		for _, r := range rows {
			r.cancel()
			t.mu.Lock()
			if t.held[r.id] == r {
				delete(t.held, r.id)
			}
			t.mu.Unlock()
			t.free <- struct{}{}
		}
		wake(t.settled)
	}
}

// settleAll repeats a settle until it is answered: an answer that was lost is given again. It gives up when others
// should take the rows. If the server refuses it, each row is settled alone.
func (t *table) settleAll(s *session, rows []*Row) {
	refused := 0
	for end := time.Now().Add(5 * t.worker.Lease); len(rows) > 0 && time.Now().Before(end); time.Sleep(errorPause) {
		sql, args := t.call(rows)
		err := s.query(t.worker.deadline, t.worker.InTransactions, sql, args, func(pgx.Rows) error { return nil })
		switch {
		case err == nil || t.worker.deadline.Err() != nil:
			return
		case refusal(err) == nil: // the answer was lost
		case len(rows) > 1: // one of them may hold up all
			for _, r := range rows {
				t.settleAll(s, []*Row{r})
			}
			return
		case refused == refusals:
			return
		default:
			refused++
		}
	}
}

// call is the call that settles rows: settle takes all outcomes, and the short forms those that are alike.
func (t *table) call(rows []*Row) (sql string, args []any) {
	first, alike := rows[0], rand.IntN(2) == 0
	ids := make([]string, len(rows))
	outcomes := make([]map[string]any, len(rows))
	for i, r := range rows {
		alike = alike && r.token == first.token && r.outcome == first.outcome
		ids[i] = r.id
		outcomes[i] = map[string]any{"id": r.id, "token": r.token, "outcome": r.outcome.What}
		if o := outcomes[i]; r.outcome.What == "retry" || r.outcome.What == "snooze" {
			o["delay"] = r.outcome.Delay.Seconds()
		}
		if r.outcome.Error != "" {
			outcomes[i]["error"] = r.outcome.Error
		}
	}
	from := func(form string) string {
		return fmt.Sprintf("SELECT id::text, result FROM %s.%s_"+form, t.worker.Schema, t.name)
	}
	if !alike {
		encoded, err := json.Marshal(outcomes)
		if err != nil {
			panic(err) // cannot fail for texts and numbers
		}
		return from("settle($1::jsonb)"), []any{string(encoded)}
	}
	args = []any{first.token, ids}
	o := first.outcome
	switch o.What {
	case "retry":
		return from("retry($1::uuid, $2::uuid[], $3::interval, $4::text)"), append(args, seconds(o.Delay), o.Error)
	case "snooze":
		return from("snooze($1::uuid, $2::uuid[], $3::interval)"), append(args, seconds(o.Delay))
	case "fail":
		return from("fail($1::uuid, $2::uuid[], $3::text)"), append(args, o.Error)
	}
	return from(o.What + "($1::uuid, $2::uuid[])"), args
}
