package liveness

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The holders are sessions that have called a maintenance function over everything it could find, and stay open; or
// that stand still in a fold, like a session whose network fails before the rest of its pipeline has arrived.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.besideEach(t, w.populate(), func(w *world) []holder { return append(w.maintenance(), w.folds()...) })
}

// folds are holders that fold: they apply the notes that exist when they begin.
func (w *world) folds() (holders []holder) {
	w.Helper()
	for _, function := range w.list(`SELECT proname FROM pg_proc
		WHERE pronamespace = $1::regnamespace AND proname LIKE '%\_fold' AND prokind = 'f' ORDER BY 1`, w.Schema) {
		holders = append(holders, holder{function, func(w *world) func() {
			return w.opened(func(tx pgx.Tx) error {
				for { // while others fold there is nothing to hold
					var folded *int
					err := tx.QueryRow(w.Context(), "SELECT folded FROM "+w.Schema+"."+function+"(1000)").Scan(&folded)
					if err != nil || folded != nil {
						return err
					}
				}
			})
		}})
	}
	return holders
}

func (w *world) maintenance() (holders []holder) {
	w.Helper()
	functions := w.list(`SELECT oid::regprocedure::text FROM pg_proc
		WHERE pronamespace = $1::regnamespace AND 'max_rows' = ANY (proargnames) AND prokind = 'f' ORDER BY 1`, w.Schema)
	if len(functions) == 0 {
		w.Fatal("no function takes max_rows")
	}
	calls := []string{}
	for _, function := range functions {
		if strings.Contains(function, "_each(") {
			for _, kind := range []string{"reap_expired", "purge_done", "purge_failed"} {
				calls = append(calls, w.call(function, kind))
			}
			continue
		}
		calls = append(calls, w.call(function, ""))
	}
	for _, call := range calls {
		holders = append(holders, holder{call, func(w *world) func() {
			return w.opened(func(tx pgx.Tx) error {
				_, err := tx.Exec(w.Context(), "SELECT * FROM "+w.Schema+"."+call)
				return err
			})
		}})
	}
	return holders
}

// call renders the call of a function, with a value for each parameter: kind is the value of texts.
func (w *world) call(function, kind string) string {
	name, types, _ := strings.Cut(function[strings.LastIndex(function[:strings.Index(function, "(")], ".")+1:], "(")
	args := []string{}
	for _, of := range strings.Split(strings.TrimSuffix(types, ")"), ",") {
		switch strings.TrimSpace(of) {
		case "interval":
			args = append(args, "'1 hour'")
		case "text":
			args = append(args, "'"+kind+"'")
		case "text[]":
			args = append(args, "'{outbox,inbox,timers,jobs}'")
		case "uuid[]", "bigint[]":
			args = append(args, "'{}'")
		default:
			args = append(args, "1000")
		}
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}
