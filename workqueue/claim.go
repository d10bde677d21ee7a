package workqueue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A claimRequest is one claim call. Its lanes are read one after the other, each behind its own position, until
// the limit is reached.
type claimRequest struct {
	owner  uuid.UUID
	lease  time.Duration
	limit  int
	lanes  []claimLane
	target func() (body any, dest []any)
}

// A claimLane is the values of one lane, and where to begin in it.
type claimLane struct {
	values []any
	after  position
}

// A position is a place in the claim index: the last row of an earlier claim. The zero value is the start.
type position struct {
	due time.Time
	id  uuid.UUID
}

func (p position) before(o position) bool {
	return cmp.Or(p.due.Compare(o.due), bytes.Compare(p.id[:], o.id[:])) < 0
}

func (p position) isStart() bool { return p.due.IsZero() }

// bound is the position's time as an element of an array; the start lies before every time, and stands for those
// before Christ, which PostgreSQL writes in another way.
func (p position) bound() string {
	if p.due.UTC().Year() < 1 || p.isStart() {
		return "-infinity"
	}
	return p.due.UTC().Format(microseconds)
}

// A claimedRow is a claimed row with its domain columns scanned into body.
type claimedRow struct {
	Row
	lane       int // its place in the request's lanes
	body       any
	unreadable error // why body could not be filled
}

// claim returns the rows in claim order. They have committed when it returns.
func (q *Queue) claim(ctx context.Context, req claimRequest) ([]claimedRow, error) {
	var claimed []claimedRow
	scanner := claimScanner{req: req, lanes: q.table.laneIndex(req.lanes)}
	err := q.exec.run(ctx, call{
		statement: q.table.statements.claim,
		args:      q.table.claimArgs(req),
		lazy:      true,
		reset:     func() { claimed = make([]claimedRow, 0, req.limit) },
		row: func(scan func(...any) error) error {
			row, err := scanner.scan(scan)
			claimed = append(claimed, row)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(claimed, func(a, b claimedRow) int { // RETURNING has no order
		return cmp.Or(a.lane-b.lane, a.DueAt.Compare(b.DueAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return claimed, nil
}

func (t *Table) claimArgs(req claimRequest) map[string]any {
	lanes := make([][]any, len(req.lanes))
	due, ids := make([]string, len(req.lanes)), make([]uuid.UUID, len(req.lanes))
	for i, lane := range req.lanes {
		lanes[i], due[i], ids[i] = lane.values, lane.after.bound(), lane.after.id
	}
	return t.laneArgs(map[string]any{
		"owner_token": req.owner,
		"lease":       interval(req.lease),
		"batch_size":  req.limit,
		"after_due":   due,
		"after_id":    ids,
	}, lanes)
}

// A claimScanner reads the rows of one claim.
type claimScanner struct {
	req     claimRequest
	lanes   laneIndex
	row     claimedRow
	headers *string
	dest    []any
}

// scan reads a row. One whose columns do not fit their Go type is claimed all the same, with its
// neighbours: it is marked, so that its delivery fails and no other.
func (s *claimScanner) scan(scan func(...any) error) (claimedRow, error) {
	body, domain := s.req.target()
	s.row = claimedRow{body: body}
	s.row.Token = s.req.owner
	s.dest = append(s.dest[:0], &s.row.ID, &s.row.DueAt, &s.row.CreatedAt, &s.row.Attempt, &s.row.MaxAttempts, &s.headers)
	core := len(s.dest)
	s.dest = append(s.dest, domain...)
	err := scan(s.dest...)
	if err != nil {
		s.row.unreadable = fmt.Errorf("txwork: the row does not fit its Go type: %w", err)
		s.dest = append(s.dest[:core], untyped(len(domain))...)
		err = scan(s.dest...)
	}
	s.row.lane = s.lanes.of(s.dest[core:])
	s.row.Headers = decodeHeaders(s.headers)
	return s.row, err
}

// untyped are destinations that take any value.
func untyped(n int) []any {
	dest := make([]any, n)
	for i := range dest {
		dest[i] = new(any)
	}
	return dest
}

// decodeHeaders never fails: a row with headers that somebody wrote by hand still has to be delivered.
// A value that is no string is given as its JSON text.
func decodeHeaders(encoded *string) map[string]string {
	if encoded == nil {
		return nil
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(*encoded), &raw) != nil {
		return nil
	}
	headers := make(map[string]string, len(raw))
	for k, v := range raw {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		headers[k] = s
	}
	return headers
}

// anyTarget scans domain columns into values of whatever type the driver gives.
func (t *Table) anyTarget() (any, []any) {
	values := make([]any, len(t.claimed))
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	return values, dest
}

func publicRows(claimed []claimedRow) []Row {
	rows := make([]Row, len(claimed))
	for i, c := range claimed {
		rows[i] = c.Row
		rows[i].Values, _ = c.body.([]any)
	}
	return rows
}

func rowIDs(claimed []claimedRow) []uuid.UUID {
	ids := make([]uuid.UUID, len(claimed))
	for i, c := range claimed {
		ids[i] = c.ID
	}
	return ids
}
