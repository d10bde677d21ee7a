package webui

import (
	"context"

	"github.com/txwork/txwork/internal/survey"
)

// sections returns the tables of which a page has a section: those that the user sees and the page is about or, if the
// address names one, that one. It sets the navigation of the view, and which tables are shown in part.
func (r *request) sections(ctx context.Context, v *view, about func(*survey.Facts) bool) (all []*survey.Facts,
	err error) {
	if v.tables, err = r.tables(ctx); err != nil {
		return nil, err
	}
	facts, err := r.handler.facts(ctx)
	if err != nil {
		return nil, err
	}
	for i := range facts {
		t := &facts[i]
		if only := r.query.Get("table"); !about(t) || !has(v.tables, t.Name) || only != "" && only != t.Name {
			continue
		}
		if t.Filtered {
			v.partial = append(v.partial, t.Name)
		}
		all = append(all, t)
	}
	return all, nil
}
