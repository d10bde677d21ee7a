package webui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
)

// A chosenPage is what chosen.html shows.
type chosenPage struct {
	deed
	Table string
	State stateLabel
	IDs   []uuid.UUID
}

// changeChosen changes the rows of a list that were chosen one by one, once that was confirmed.
func changeChosen(ctx context.Context, r *request) (view, error) {
	d, v, err := r.deed()
	if err != nil {
		return view{}, err
	}
	t, known, err := r.table(ctx)
	if err != nil {
		return view{}, err
	}
	label, ok := labelOf(r.PathValue("state"))
	if !ok || !slices.Contains(v.States, label.State) {
		return view{}, notFound
	}
	p := chosenPage{deed: d, Table: t.Spec().Table, State: label}
	if p.IDs, err = r.ids(); err != nil {
		return view{}, err
	}
	if r.form.Get("confirmed") == "" {
		return view{title: d.Label + " " + p.Table, page: "chosen.html", data: p, tables: known}, nil
	}
	left, err := r.decide(ctx, t, d, v, p.IDs)
	if err != nil {
		return view{}, err
	}
	if len(left) > 0 {
		return view{}, problem{status: http.StatusConflict, tables: known,
			Title:  fmt.Sprintf("%d of %d rows were not %s", len(left), len(p.IDs), v.Done),
			Detail: notAll(left, len(p.IDs)),
			Advice: "Look at the rows as they are now."}
	}
	return view{to: below("t", p.Table, label.State)}, nil
}

// notAll says which of n rows were left, and why the first of them was.
func notAll(left []operate.Decision, n int) string {
	text := fmt.Sprintf("Row %s: %s.", left[0].ID, left[0].Why)
	if more := len(left) - 1; more > 0 {
		text += fmt.Sprintf(" And %d more.", more)
	}
	if n > len(left) {
		text += " The other rows were."
	}
	return text
}

// ids are the rows that the form names.
func (r *request) ids() (ids []uuid.UUID, err error) {
	if n := len(r.form["id"]); n == 0 || n > maxRows {
		return nil, operate.Refusal{Field: "rows", Problem: fmt.Sprintf(": choose 1 to %d of the list", maxRows)}
	}
	for _, text := range r.form["id"] {
		id, err := uuid.Parse(strings.TrimSpace(text))
		if err != nil {
			return nil, badForm
		}
		ids = append(ids, id)
	}
	return ids, nil
}
