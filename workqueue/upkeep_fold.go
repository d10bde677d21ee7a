package workqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A Fold is a function of a domain that applies notes. Effects of a settle on other rows, such as releasing the next
// row of a key, do not happen in the transaction of the settle, where they would wait for other transactions and make
// others wait. A trigger appends a note instead, and a fold applies the notes later, in short transactions of its own.
// One session at a time folds a table.
type Fold struct {
	// Suffix names the function <schema>.<table>_<suffix>(max_notes integer, since timestamptz). It applies about
	// max_notes notes that are due, the earliest first, and returns one row:
	//
	//	folded integer          notes that it applied; NULL: another session folds, or its changes are not visible
	//	released integer        rows that became claimable
	//	again double precision  seconds until the next note is due; NULL: there is none; 0: some are due now
	//	upto timestamptz        the due time of the last note that it applied
	//
	// The function ignores notes that were due before since. A caller passes the upto of its last call, so that the
	// function does not read notes that are deleted but not yet vacuumed.
	Suffix string

	// Notes is the suffix of the table with the notes, <schema>.<table>_<notes>. Its column at is the time at which a
	// note is due. It is not before the start of the transaction that writes the note, and it has an index.
	Notes string

	// Fronts says that the function takes a third argument, fronts jsonb: how far the claims of the caller's process
	// have come in each lane, as an object of times. The function makes a row that it releases due just beyond the last
	// claim of the row's lane, unless the row's own due time is later: claims then find it in its turn. If it became
	// due now, it would queue up behind all rows that are already due. It is for package keyed: the keys of the object
	// are internal.
	Fronts bool

	// Column is a column that is not NULL in rows that write notes when they are settled.
	Column string
}

// foldLimit bounds the notes of one call, and so how long the call holds locks. If the notes concern few keys, a fold
// may apply ten times as many.
const foldLimit = 1000

// foldPatience is how long Fold waits for another session that folds.
const foldPatience = 5 * time.Second

// Fold applies the notes that are due (Spec.Folds) until none is left, and returns how many it applied. Workers fold by
// themselves; if you claim with [Queue.Claim], call Fold first. It may run anywhere, any number of times.
//
// On a pool each call of a function is a transaction of its own, and Fold waits up to five seconds for another session
// that is folding. In an application's transaction it does not wait, but leaves the notes to the other session; and
// nobody else can fold until the transaction ends.
func (q *Queue) Fold(ctx context.Context) (int, error) {
	total, _, err := q.fold(ctx, foldPatience)
	return total, err
}

// TryFold is [Queue.Fold] without the wait. busy reports that another session is folding, which applies the rest. Use
// it for maintenance that is repeated anyway.
func (q *Queue) TryFold(ctx context.Context) (folded int, busy bool, err error) {
	return q.fold(ctx, 0)
}

// fold waits at most patience for another session that is folding.
func (q *Queue) fold(ctx context.Context, patience time.Duration) (total int, busy bool, err error) {
	var waited time.Duration
	for ctx.Err() == nil && len(q.table.spec.Folds) > 0 {
		r, err := q.foldOnce(ctx, make([]time.Time, len(q.table.spec.Folds)), nil)
		total += r.folded
		switch _, own := q.exec.(poolExecutor); {
		case err != nil:
			return total, r.busy, err
		case r.folded > 0:
		case r.busy && own && waited < patience:
			time.Sleep(minBusyPause)
			waited += minBusyPause
		default:
			return total, r.busy, nil
		}
	}
	return total, false, ctx.Err()
}

// A foldResult sums up one call of all folds of a table.
type foldResult struct {
	folded, released int
	busy             bool          // another session was folding
	again            time.Duration // until the next note is due; negative: there is none
	ends             []foldEnd     // of each fold
	by               foldMark
}

// A foldMark identifies a transaction that folds. The notification of the rows that the fold releases carries the same
// values.
type foldMark struct {
	began   time.Time
	session uint32
}

// A foldEnd is how far a fold came.
type foldEnd struct {
	upto time.Time // zero: it applied no note
	full bool      // more notes may be due
}

// foldOnce calls each fold once. since says where each begins.
func (q *Queue) foldOnce(ctx context.Context, since []time.Time, at fronts) (r foldResult, err error) {
	bounds := make([]string, len(since))
	for i, at := range since {
		bounds[i] = position{due: at}.bound()
	}
	c := conn.Call{
		Statement: q.table.statements.fold,
		Args:      map[string]any{"max_notes": foldLimit, "since": bounds, "fronts": at.json()},
		Lazy:      true, // if a crash undoes a fold, its notes are still there
		Reset:     func() { r = foldResult{again: -1} },
		Row:       func(scan func(...any) error) error { return r.add(scan) },
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Fold, foldLimit)
	err = q.exec.run(ctx, c)
	call.End(telemetry.Event{Changed: r.folded, Err: err})
	return r, err
}

// add reads what one of the folds has returned.
func (r *foldResult) add(scan func(...any) error) error {
	var folded, released *int
	var again *float64
	var upto *time.Time
	if err := scan(&folded, &released, &again, &upto, &r.by.began, &r.by.session); err != nil {
		return err
	}
	if folded == nil {
		r.busy = true
		r.ends = append(r.ends, foldEnd{})
		return nil
	}
	r.folded += *folded
	r.released += *released
	end := foldEnd{full: *folded > 0 && again != nil && *again <= 0}
	if upto != nil {
		end.upto = *upto
	}
	r.ends = append(r.ends, end)
	if again != nil {
		if in := max(postgres.Seconds(*again), 0); r.again < 0 || in < r.again {
			r.again = in
		}
	}
	return nil
}

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
