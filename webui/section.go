package webui

import (
	"context"
	"slices"

	"github.com/txwork/txwork/internal/survey"
)

// dividedBy is the column whose values are the parts of a table, see [operate.Layout.DividedBy].
func dividedBy(t *survey.Facts) string {
	if len(t.LaneNames) > 0 {
		return t.LaneNames[0]
	}
	return t.LabelName()
}

// sections returns the tables of which a page has a section: those that the user sees and the page is about or, if the
// address names one, that one. It sets the navigation of the view, and which tables are shown in part.
func (r *request) sections(ctx context.Context, v *view, about func(*survey.Facts) bool) (all []*survey.Facts,
	err error) {
	if v.tables, err = r.tables(ctx); err != nil {
		return nil, err
	}
	names := v.tables
	if only := r.query.Get("table"); only != "" {
		if !has(names, only) {
			return nil, noTable(r.handler.Schema, only, names)
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != only })
	}
	if len(names) == 0 {
		return nil, nil
	}
	facts, err := r.handler.facts(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i := range facts {
		t := &facts[i]
		if !about(t) {
			continue
		}
		if t.Filtered {
			v.partial = append(v.partial, t.Name)
		}
		all = append(all, t)
	}
	return all, nil
}
