package workqueue

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// foldStatement calls all folds of the table in the order of the Spec, because the rows that one fold releases may
// write notes for the next.
func (v view) foldStatement() conn.Statement {
	var parts []string
	for i, f := range v.spec.Folds {
		var fronts string
		if f.Fronts {
			fronts = ", @fronts::text::jsonb"
		}
		parts = append(parts, fmt.Sprintf("SELECT f.folded, f.released, f.again, f.upto, now(), pg_backend_pid()"+
			" FROM %s(@max_notes::int, (@since::text[])[%d]::timestamptz%s) AS f", v.Function(f.Suffix), i+1, fronts))
	}
	return numbered("fold", strings.Join(parts, " UNION ALL "))
}

// announceNotes selects the first and the last due note of each fold, beyond a given time.
func (v view) announceNotes() conn.Statement {
	var parts []string
	for i, f := range v.spec.Folds {
		beyond := fmt.Sprintf("(SELECT (extract(epoch FROM n.at) * 1000000)::bigint FROM %s AS n"+
			" WHERE n.at > (@after_due::text::timestamptz[])[%d] AND n.at <= now() ORDER BY n.at", v.Function(f.Notes),
			i+1)
		parts = append(parts, "SELECT "+beyond+" LIMIT 1), "+beyond+" DESC LIMIT 1)")
	}
	return numbered("announce_notes", strings.Join(parts, " UNION ALL "))
}

// Noted is the condition under which a settle of the row writes notes. A claim returns it.
func (v view) Noted(row string) string {
	var columns []string
	for _, f := range v.spec.Folds {
		columns = append(columns, row+"."+quote(f.Column)+" IS NOT NULL")
	}
	if columns == nil {
		return "false"
	}
	return strings.Join(columns, " OR ")
}

// FoldFunctions are the Spec's Folds.
func (v view) FoldFunctions() []string {
	var names []string
	for _, f := range v.spec.Folds {
		names = append(names, v.Function(f.Suffix))
	}
	return names
}

// FoldLimit is foldLimit for the template.
func (view) FoldLimit() int { return foldLimit }

// Inc counts from one, as arrays in SQL do.
func (view) Inc(i int) int { return i + 1 }

// TableName is the table's name for messages.
func (v view) TableName() string { return v.spec.Name() }
