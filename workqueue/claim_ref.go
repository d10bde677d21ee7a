package workqueue

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// processID is the id of this process: 48 random bits, and not 0.
var processID = newProcessID()

func newProcessID() int64 {
	var random [8]byte
	for {
		rand.Read(random[2:]) // never fails
		if id := int64(binary.BigEndian.Uint64(random[:])); id != 0 {
			return id
		}
	}
}

// processName is that id as the beginning of every token has it.
func processName() string { return fmt.Sprintf("%012x", processID) }

// NewOwnerToken returns an owner token for one [Queue.Claim]: a UUID of version 8 that begins with the 48 bits of this
// process, which has drawn them when it started, and has 74 random ones. So the rows of a process can be recognised,
// while a settle is still guarded by a value that no other claim has.
func NewOwnerToken() uuid.UUID {
	token := uuid.New()
	binary.BigEndian.PutUint32(token[:], uint32(processID>>16))
	binary.BigEndian.PutUint16(token[4:], uint16(processID))
	token[6] = 0x80 | token[6]&0x0f
	return token
}

// A claimRef names one claim of one row. Every guard compares it.
type claimRef struct{ id, token uuid.UUID }

func claimRefs(owner uuid.UUID, ids []uuid.UUID) []claimRef {
	refs := make([]claimRef, len(ids))
	for i, id := range ids {
		refs[i] = claimRef{id, owner}
	}
	return refs
}

// refArgs are the references as the two arrays that the statements unnest.
func refArgs(refs []claimRef) map[string]any {
	ids, tokens := make([]uuid.UUID, len(refs)), make([]uuid.UUID, len(refs))
	for i, r := range refs {
		ids[i], tokens[i] = r.id, r.token
	}
	return map[string]any{"ids": ids, "tokens": tokens}
}

// An extension is what a renewal achieved.
type extension struct {
	ids       []uuid.UUID // rows whose lease was extended
	cancelled []uuid.UUID // of those, the rows that are to be cancelled
}

// extend renews claims, possibly of several tokens. A row that it did not change because another session has it locked
// at the moment is still ours. For the record of since when a row runs, a worker also says within how many microseconds
// each row should end, which implies that the claims had the same lease.
func (q *Queue) extend(ctx context.Context, refs []claimRef, lease time.Duration, within []*int64) (extension, error) {
	var x extension
	args := refArgs(refs)
	args["lease"] = conn.Interval(lease)
	args["claimed"], args["within"] = conn.OptionalText(""), within
	if len(within) > 0 {
		args["claimed"] = conn.Interval(lease)
	}
	err := q.exec.run(ctx, conn.Call{
		Statement: q.table.statements().extend,
		Args:      args,
		Lazy:      true,
		Writes:    true,
		Reset:     func() { x = extension{} },
		Row: func(scan func(...any) error) error {
			var id uuid.UUID
			var wanted bool
			if err := scan(&id, &wanted); err != nil {
				return err
			}
			x.ids = append(x.ids, id)
			if wanted {
				x.cancelled = append(x.cancelled, id)
			}
			return nil
		},
	})
	if err != nil {
		return extension{}, err
	}
	_, err = q.explainMissing(ctx, refs, x.ids, func(_ uuid.UUID, at standing) bool { return at.status == InProgress })
	return x, err
}

// A stood is a row that a guarded statement did not change, and how it stands.
type stood struct {
	id uuid.UUID
	at standing
}

// explainMissing looks once more at the rows that a guarded statement did not change. Where the row still carries the
// claim's token and is in a state that isFine accepts, nothing is wrong: the statement was applied before, or skipped a
// locked row. These are returned. The others are a SettleError.
func (q *Queue) explainMissing(ctx context.Context, refs []claimRef, changed []uuid.UUID,
	isFine func(uuid.UUID, standing) bool) (fine []stood, err error) {
	rest := missing(refs, changed)
	if len(rest) == 0 {
		return nil, nil
	}
	e := &SettleError{Table: q.table.Name()}
	err = q.exec.run(ctx, conn.Call{
		Statement: q.table.statements().classify,
		Reads:     true,
		Args:      refArgs(rest),
		Reset:     func() { e.Gone, e.Lost, fine = nil, nil, nil },
		Row: func(scan func(...any) error) error {
			var row stood
			var found, ours bool
			if err := scan(&row.id, &found, &ours, &row.at.status, &row.at.cancelled); err != nil {
				return err
			}
			switch {
			case !found:
				e.Gone = append(e.Gone, row.id)
			case !ours || !isFine(row.id, row.at):
				e.Lost = append(e.Lost, row.id)
			default:
				fine = append(fine, row)
			}
			return nil
		},
	})
	if err == nil && len(e.Gone)+len(e.Lost) > 0 {
		err = e
	}
	return fine, err
}

func missing(refs []claimRef, changed []uuid.UUID) []claimRef {
	if len(refs) == len(changed) {
		return nil
	}
	done := make(map[uuid.UUID]bool, len(changed))
	for _, id := range changed {
		done[id] = true
	}
	seen := make(map[claimRef]bool, len(refs)) // named twice, reported once
	var rest []claimRef
	for _, r := range refs {
		if !done[r.id] && !seen[r] {
			seen[r] = true
			rest = append(rest, r)
		}
	}
	return rest
}
