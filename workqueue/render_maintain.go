package workqueue

import (
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
)

// Bounds on a call of a table's procedure maintain. The number of rounds only keeps a mistake from going on for ever.
const (
	maxMaintainSteps  = 100    // transactions of one kind before the other kinds have their turn
	maxMaintainRounds = 10_000 // turns of each kind
)

// MaxSteps is maxMaintainSteps for the template.
func (view) MaxSteps() int { return maxMaintainSteps }

// MaxRounds is maxMaintainRounds for the template.
func (view) MaxRounds() int { return maxMaintainRounds }

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
		maintenance{"purge_done", "SELECT p.done FROM " + v.Function("purge") + "($2, $3, NULL) AS p"},
		maintenance{"purge_failed", "SELECT p.failed FROM " + v.Function("purge") + "($2, NULL, $4) AS p"},
		maintenance{"fold", "SELECT f.folded FROM " + v.Function("fold_step") + "($2, NULL, 0) AS f"},
	)
}

// MaxSkipped is MaxSkipped for the template.
func (view) MaxSkipped() int { return MaxSkipped }

// Note calls the function of the migrations that notes when the table was maintained, see package reaper.
func (v view) Note() string {
	return quote(v.spec.Schema) + "." + quote("leader_note") + "('" + v.spec.Name() + "', problem)"
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

// maxVain is how many rows may fail in a row before the first success until the function each gives up.
const maxVain = 16

// MaxVain is maxVain for the template.
func (view) MaxVain() int { return maxVain }

// Wanted is the column that maintenance selects of its rows.
func (v view) Wanted() string {
	if v.Lists {
		return "id"
	}
	return "ctid"
}

// Listed selects the ids of the rows of one kind of maintenance inside of the function each. It locks none, because a
// part locks its own.
func (v view) Listed(file string) string {
	v.Lists, v.Among = true, "\n      AND r.id <> ALL ($4)"
	list := v.inline(file, map[string]string{"max_rows": "$2", "age": "$3"})
	end := strings.LastIndex(list, "\n")
	return list[:end] // without the locking clause
}

// OfPart is one kind of maintenance for the rows of a part inside of the function each.
func (v view) OfPart(file string) string {
	v.Among = "\n      AND r.id = ANY (own.part)"
	return v.inline(file, map[string]string{"max_rows": "own.size", "age": "$3"})
}

// Purged is a purge of at most $1 rows inside of the function purge.
func (v view) Purged(file, age string) string {
	return v.inline(file, map[string]string{"max_rows": "$1", "age": age})
}

// RefusesAge refuses a retention that the Go API refuses, too.
func (view) RefusesAge(param, name string) string {
	const most = maxDelay / time.Hour
	return sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR %[1]s BETWEEN interval '0' AND interval '%[2]d hours'",
		param, most), name, fmt.Sprintf("must be between 0 and %d hours", most), "NULL keeps all rows.")
}
