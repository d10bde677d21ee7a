package operate

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// DividedBy is the column whose values are the parts of a table, as [Parts] names them: its queue or consumer or, if it
// has neither, its topic or kind. It is empty if the table has none of them.
func (l Layout) DividedBy() string {
	if len(l.lanes) > 0 {
		return l.lanes[0].Name
	}
	for _, name := range []string{"kind", "topic"} {
		if l.Has(name) {
			return name
		}
	}
	return ""
}

// among is the condition on rows r of some parts of the table. The function param makes a parameter of their names.
func (l Layout) among(parts []string, param func([]string) string) (string, error) {
	by := l.DividedBy()
	if by == "" {
		return "", Refusal{"table", fmt.Sprintf(" %s has neither queues nor topics, of which a user could see some", l.Table)}
	}
	return fmt.Sprintf("r.%s::text = ANY (%s)", Column{Name: by}.Quoted(), param(parts)), nil
}

// Within returns those of the ids that are rows in some parts of a table; all of them if parts is nil.
func (d *DB) Within(ctx context.Context, t *workqueue.Table, ids []uuid.UUID, parts []string) (mine []uuid.UUID,
	err error) {
	if parts == nil {
		return ids, nil
	}
	within, err := d.within(ctx, t, parts)
	if err != nil {
		return nil, err
	}
	err = d.Read(ctx, func(tx pgx.Tx) error {
		mine, err = within.of(ctx, workqueue.Pgx(tx), ids, true)
		return err
	})
	return mine, err
}

// A within tells which rows are in some parts of a table; nil: all are.
type within struct {
	rows  string // selects ids of rows r
	is    string // the condition on rows r
	parts []string
}

func (d *DB) within(ctx context.Context, t *workqueue.Table, parts []string) (w *within, err error) {
	if parts == nil {
		return nil, nil
	}
	err = d.Read(ctx, func(tx pgx.Tx) error {
		l, err := ReadLayout(ctx, tx, t.Spec())
		if err != nil {
			return err
		}
		is, err := l.among(parts, func([]string) string { return "$2::text[]" })
		w = &within{"SELECT r.id FROM " + l.Table + " AS r WHERE r.id = ANY ($1::uuid[])", is, parts}
		return err
	})
	return w, err
}

// of returns those of the ids that are rows inside of the parts, or outside of them.
func (w *within) of(ctx context.Context, tx workqueue.Tx, ids []uuid.UUID, inside bool) (found []uuid.UUID, err error) {
	query := fmt.Sprintf("%s AND coalesce(%s, false) = $3::boolean", w.rows, w.is)
	err = tx.Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		found = append(found, id)
		return err
	}, query, ids, w.parts, inside)
	return found, err
}

// errMoved says that a row has got into another part while it was decided about.
var errMoved = Refusal{Problem: "a row has got another queue or topic meanwhile"}

// decide calls the verb's function. Rows outside of the parts are to it as if they were not there.
func (w *within) decide(ctx context.Context, tx workqueue.Tx, t *workqueue.Table, v Verb, ids []uuid.UUID) (
	[]Decision, error) {
	if w == nil {
		return decide(ctx, tx, t, v, ids)
	}
	mine, err := w.of(ctx, tx, ids, true)
	if err != nil {
		return nil, err
	}
	inside := map[uuid.UUID]bool{}
	for _, id := range mine {
		inside[id] = true
	}
	asked, meant := make([]uuid.UUID, len(ids)), map[uuid.UUID]uuid.UUID{}
	for i, id := range ids {
		if asked[i] = id; !inside[id] {
			asked[i] = uuid.New() // which no row has
		}
		meant[asked[i]] = id
	}
	all, err := decide(ctx, tx, t, v, asked)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].ID = meant[all[i].ID]
	}
	// Those that are left are locked by now. A timer that is set anew may have got another topic before it was.
	strayed, err := w.of(ctx, tx, mine, false)
	if err == nil && len(strayed) > 0 {
		err = errMoved
	}
	return all, err
}
