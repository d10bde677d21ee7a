package webui

import (
	"context"
	"strings"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// Bounds of a page of keys: with the blocked ones it reads at most 20,000 index entries of a table.
const (
	maxKeys    = 50  // of a table
	maxBlocked = 20  // keys with a dead letter that blocks them
	maxBehind  = 200 // rows that are counted behind each
)

// A keysPage is what keys.html shows.
type keysPage struct {
	Tables []keysTable
	After  string
}

// A keysTable is the ordered keys of a table.
type keysTable struct {
	Name    string
	Blocked []survey.Blocker // by a dead letter, those whose rows have waited longest first
	Cut     bool             // there are more of these
	Unblock string           // the command that lets the rows behind a dead letter go on, if there is one
	Keys    operate.Keys
	Problem string
}

// keys shows what the rows of ordered keys wait for.
func keys(ctx context.Context, r *request) (view, error) {
	v := view{title: "Keys", page: "keys.html"}
	all, err := r.sections(ctx, &v, func(t *survey.Facts) bool { return t.Has("concurrency_key") })
	if err != nil {
		return view{}, err
	}
	p := keysPage{After: r.query.Get("after")}
	for _, t := range all {
		one := keysTable{Name: t.Name}
		if p.After == "" {
			one.Blocked, err = survey.Blockers(ctx, r.handler.reader(), t, maxBehind, maxBlocked)
			one.Cut = len(one.Blocked) > 0 && one.Blocked[0].Keys > maxBlocked
		}
		if t.Name == "outbox" {
			one.Unblock = strings.Trim(postgres.Command(t.Schema, "outbox", "unblock", "ID"), "`")
		}
		if err == nil {
			one.Keys, err = operate.ReadKeys(ctx, r.handler.reader(), t, p.After, maxKeys, maxBehind)
		}
		if err != nil {
			one.Problem = r.handler.explain(ctx, "keys of "+t.Name, err).Error()
		}
		for i, b := range one.Blocked {
			one.Blocked[i].Error = r.handler.errorOf(t.Name, b.Error)
		}
		for _, k := range one.Keys.Keys {
			if k.Error != nil {
				*k.Error = r.handler.errorOf(t.Name, *k.Error)
			}
		}
		p.Tables = append(p.Tables, one)
	}
	v.data = p
	return v, nil
}

// MaxBehind is maxBehind for templates.
func (keysPage) MaxBehind() int64 { return maxBehind }

// Blocks says what a reason of an operate.Key means.
func (keysPage) Blocks(reason string) string {
	switch reason {
	case "dead_letter":
		return "a dead letter"
	case "in_progress":
		return "a row that runs"
	case "expired":
		return "a row whose lease has expired"
	case "scheduled":
		return "a row that is due later"
	case "ready":
		return "a row that is ready"
	}
	return "the next fold, which releases it"
}
