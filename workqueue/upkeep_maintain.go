package workqueue

import (
	"fmt"
	"time"
)

// maxMaintainSteps bounds the transactions of each kind in one call of a table's procedure maintain.
const maxMaintainSteps = 100

// MaxSteps is maxMaintainSteps for the template.
func (view) MaxSteps() int { return maxMaintainSteps }

// A maintenance is one kind of work that a table's procedure maintain does: a query that returns how much it has done.
// Its parameters are those of maintain_step.
type maintenance struct{ Kind, Query string }

// Maintenance lists the kinds in their order. Folds are last, because the others write notes.
func (v view) Maintenance() []maintenance {
	all := []maintenance{{"reap_expired", "SELECT r.requeued + r.failed FROM " + v.Function("reap_expired") +
		"($2) AS r"}}
	for _, suffix := range v.spec.Sweeps {
		all = append(all, maintenance{suffix, "SELECT " + v.Function(suffix) + "($2)"})
	}
	return append(all,
		maintenance{"purge", "SELECT p.done + p.failed FROM " + v.Function("purge") + "($2, $3, $4) AS p"},
		maintenance{"fold", "SELECT " + v.Function("fold") + "($2)"},
	)
}

// Note calls the function of the migrations that notes when the table was maintained, see package reaper.
func (v view) Note() string {
	return quote(v.spec.Schema) + "." + quote("leader_note") + "('" + v.spec.Name() + "')"
}

// FoldFunctions are the Spec's Folds.
func (v view) FoldFunctions() []string {
	var names []string
	for _, f := range v.spec.Folds {
		names = append(names, v.Function(f.Suffix))
	}
	return names
}

// DoneAge and FailedAge are the Spec's retentions as expressions. NULL is for ever.
func (v view) DoneAge() string   { return intervalOrNull(v.spec.Retention) }
func (v view) FailedAge() string { return intervalOrNull(v.spec.FailedRetention) }

func intervalOrNull(d time.Duration) string {
	switch {
	case d == 0:
		return "NULL"
	case d%time.Hour == 0:
		return fmt.Sprintf("interval '%d hours'", d/time.Hour)
	}
	return fmt.Sprintf("interval '%d microseconds'", d.Microseconds())
}

// Purged is a purge of at most $1 rows inside of the function purge.
func (v view) Purged(file, age string) string {
	return v.inline(file, map[string]string{"max_rows": "$1", "age": age})
}
