package sqlcrew

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

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
