package operate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A Selection is rows of a table that an operator wants to change together.
type Selection struct {
	Filter
	Parts []Listing
	Limit int // 0: none
}

// Before returns those of the selection's rows that have been in their states since before a time, oldest first. A
// change that counts first and asks applies to these: what comes later was not counted.
func (s Selection) Before(t time.Time) Selection {
	if s.at.IsZero() {
		s.at = t
	}
	parts := make([]Listing, len(s.Parts))
	for i, part := range s.Parts {
		parts[i] = part.before(t, s.at)
	}
	s.Parts = parts
	return s
}

// At says when the rows are counted, if that is not the time of [Selection.Before].
func (s Selection) At(t time.Time) Selection {
	s.at = t
	return s
}

// Count returns how many rows a selection has, up to its limit. It calls counted with the number so far.
func (d *DB) Count(ctx context.Context, t *workqueue.Table, s Selection, counted func(rows int)) (n int, err error) {
	n, _, err = d.tally(ctx, t, s, math.MaxInt, counted)
	return n, err
}

// Preview counts like Count, but reads at most [MaxSearched] rows, those that do not match included. More says that it
// ended there, so there may be more rows than it says.
func (d *DB) Preview(ctx context.Context, t *workqueue.Table, s Selection) (n int, more bool, err error) {
	return d.tally(ctx, t, s, MaxSearched, func(int) {})
}

// tally counts on the server, so that no row is sent.
func (d *DB) tally(ctx context.Context, t *workqueue.Table, s Selection, most int, counted func(rows int)) (n int,
	more bool, err error) {
	read := 0
	for _, part := range s.Parts {
		scan, err := d.newScan(ctx, t, part, s.Filter)
		if err != nil {
			return n, false, err
		}
		for more = true; more; {
			if read+scan.read >= most {
				return n, true, nil
			}
			var matched int
			if matched, more, err = scan.count(ctx); err != nil {
				return n, false, err
			}
			if n += matched; s.Limit > 0 && n >= s.Limit {
				counted(s.Limit)
				return s.Limit, false, nil
			}
			counted(n)
		}
		read += scan.read
	}
	return n, false, nil
}

// Each passes the rows of a selection to do, in batches, until do has changed as many as the limit in total.
func (d *DB) Each(
	ctx context.Context, t *workqueue.Table, s Selection, do func(ids []uuid.UUID) (changed int, err error),
) error {
	done := 0
	for _, part := range s.Parts {
		scan, err := d.newScan(ctx, t, part, s.Filter)
		if err != nil {
			return err
		}
		for more := true; more; {
			var found []foundPlace
			if found, more, err = scan.next(ctx); err != nil {
				return err
			}
			for len(found) > 0 {
				size := min(len(found), Batch)
				if s.Limit > 0 {
					size = min(size, s.Limit-done)
				}
				if size == 0 {
					return nil
				}
				ids := make([]uuid.UUID, size)
				for i := range ids {
					ids[i] = found[i].ID
				}
				n, err := do(ids)
				if err != nil {
					return err
				}
				done, found = done+n, found[size:]
			}
		}
	}
	return nil
}

// DeleteRows deletes those of the given rows that still belong to a listing. It skips rows that other transactions have
// locked.
func DeleteRows(ctx context.Context, tx workqueue.Tx, t *workqueue.Table, l Listing, ids []uuid.UUID) (int, error) {
	table := pgx.Identifier{t.Spec().Schema, t.Spec().Table}.Sanitize()
	text := fmt.Sprintf(`DELETE FROM %[1]s AS t
		WHERE t.ctid = ANY (ARRAY(SELECT r.ctid FROM %[1]s AS r WHERE r.id = ANY ($1::uuid[]) AND %[2]s FOR UPDATE SKIP LOCKED))`, table, l.has())
	deleted, err := tx.Exec(ctx, text, ids)
	return int(deleted), err
}
