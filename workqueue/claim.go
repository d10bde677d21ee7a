package workqueue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A Row is a claimed row.
type Row struct {
	ID          uuid.UUID
	Token       uuid.UUID // the claim: every settle names it
	DueAt       time.Time
	CreatedAt   time.Time
	Attempt     int // 1 is the first
	MaxAttempts int
	Headers     map[string]string
	Values      []any // the domain's columns, in the order of Spec.Columns and without the internal ones
}

// Claim takes up to limit due rows, in due order, for the length of the lease. The owner token names
// this claim in every later settle: use a fresh one for every call, [NewOwnerToken], since a process that stalls past
// its lease and claims a row again must not be able to settle it with its old claim. A token that is not of version 8,
// or of process 0, is refused.
//
// A table with lanes needs a value for each, in the order of Spec.Lanes. With [Table.In] the claim
// holds once the transaction commits: start no work before.
func (q *Queue) Claim(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int, lanes ...any) ([]Row,
	error) {
	req := claimRequest{owner: owner, lease: lease, limit: limit, lanes: []claimLane{{values: lanes}},
		target: q.table.anyTarget}
	if err := q.table.checkClaim(req); err != nil {
		return nil, err
	}
	if q.table.spec.Admission != "" {
		req.rule = new(verdict)
	}
	if q.table.spec.hasTopics() {
		req.topics = &topicQuestion{anybody: true}
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Claim, limit)
	claimed, err := q.claim(ctx, req)
	call.End(telemetry.Event{Rows: claimedRows(claimed), Err: err})
	return publicRows(claimed), err
}

// A claimRequest is one claim call. Its lanes are read one after the other, each behind its own position, until
// the limit is reached.
type claimRequest struct {
	owner  uuid.UUID
	lease  time.Duration
	limit  int
	lanes  []claimLane
	target func(*Columns) (body any)
	rule   *verdict       // takes the answer of the rule of the lanes; nil: the claim does not ask
	topics *topicQuestion // nil: the claim does not ask
	due    *dueQuestion   // asked after the claim, in the same transaction; nil: not asked
}

// A verdict is the answer of a rule to a claim.
type verdict struct {
	admitted int
	again    float64 // seconds until the rule is to be asked again
	bounded  bool    // there is a rule
	found    bool    // a row stands beside it
}

// A claimLane has the values of one lane, and where a claim begins in it.
type claimLane struct {
	values []any
	after  position
}

func (v *verdict) columns(dest []any) []any {
	return append(dest, &v.admitted, &v.again, &v.bounded, &v.found)
}

func (v *verdict) read() (isRow bool) { return v.found }

// A position is a place in the claim index: the last row of an earlier claim. The zero value is the start.
type position struct {
	due time.Time
	id  uuid.UUID
}

func (p position) before(o position) bool {
	return cmp.Or(p.due.Compare(o.due), bytes.Compare(p.id[:], o.id[:])) < 0
}

func (p position) isStart() bool { return p.due.IsZero() }

// bound is the position's time as an element of an array. The start lies before every time. It also stands for times
// before Christ, which PostgreSQL writes in another way.
func (p position) bound() string {
	if p.due.UTC().Year() < 1 || p.isStart() {
		return "-infinity"
	}
	return p.due.UTC().Format(conn.Microseconds)
}

// A claimedRow is a claimed row with its domain columns scanned into body.
type claimedRow struct {
	Row
	lane       int // its place in the request's lanes
	labels     telemetry.Labels
	topic      string // empty: the table has no topics
	noted      bool   // its settle writes notes
	probes     bool   // it probes the destination of its topic
	body       any
	unreadable error // why body could not be filled
}

// row is a claimed row as telemetry tells it.
func (r *claimedRow) row() telemetry.Row {
	return telemetry.Row{ID: r.ID, Labels: r.labels, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Headers: r.Headers,
		State: int16(InProgress), Delay: -1}
}

// claimedRows implement [telemetry.Rows].
type claimedRows []*claimedRow

func (r claimedRows) Len() int                { return len(r) }
func (r claimedRows) Row(i int) telemetry.Row { return r[i].row() }

// claim returns the rows in claim order. They have committed when it returns.
func (q *Queue) claim(ctx context.Context, req claimRequest) ([]*claimedRow, error) {
	scanner := claimScanner{req: &req, table: q.table, lanes: q.table.laneIndex(req.lanes)}
	c := conn.Call{
		Statement: q.table.statements().claim,
		Args:      q.table.claimArgs(req),
		Lazy:      true,
		Writes:    true,
		Reset: func() {
			scanner.rows = make([]*claimedRow, 0, req.limit)
			req.topics.reset()
		},
		Row: scanner.scan,
	}
	if req.rule != nil {
		c.Writes = false // in a function, which writes nothing if the rule lets no row pass
		c.Statement = q.table.statements().admitted
		scanner.answer = req.rule
	}
	if req.topics != nil {
		c.Writes = false // in a function, which writes nothing if no row is due
		req.topics.args(c.Args)
		c.Statement = q.table.statements().byTopic
		scanner.answer = req.topics
	}
	calls := []conn.Call{c}
	if req.due != nil {
		calls = append(calls, q.due(req.due))
	}
	if err := q.exec.run(ctx, calls...); err != nil {
		return nil, err
	}
	if req.topics != nil {
		req.topics.probing(scanner.rows)
		for _, topic := range req.topics.returned {
			q.table.telemetry.Log(ctx, slog.LevelInfo, "destination is available again",
				slog.String("topic", topic.name), slog.Time("unavailable_since", topic.since))
		}
	}
	return inClaimOrder(scanner.rows), nil // RETURNING has no order
}

func inClaimOrder(rows []*claimedRow) []*claimedRow {
	slices.SortFunc(rows, func(a, b *claimedRow) int {
		return cmp.Or(a.lane-b.lane, a.DueAt.Compare(b.DueAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return rows
}

func (t *Table) claimArgs(req claimRequest) map[string]any {
	lanes := make([][]any, len(req.lanes))
	due, ids := make([]string, len(req.lanes)), make([]uuid.UUID, len(req.lanes))
	for i, lane := range req.lanes {
		lanes[i], due[i], ids[i] = lane.values, lane.after.bound(), lane.after.id
	}
	return t.laneArgs(map[string]any{
		"owner_token": req.owner,
		"lease":       conn.Interval(req.lease),
		"batch_size":  req.limit,
		"after_due":   due,
		"after_id":    ids,
	}, lanes)
}

// claimedColumns is how many of the core's own columns a claim returns.
const claimedColumns = 7

// A claimScanner reads the rows of one claim.
type claimScanner struct {
	req     *claimRequest
	table   *Table
	lanes   laneIndex
	answer  claimAnswer // nil: there is none
	rows    []*claimedRow
	slab    []claimedRow // of the next rows, see next
	headers *string
	dest    Columns // of the row
}

// A claimAnswer is what stands in the result of a claim before the columns of each row.
type claimAnswer interface {
	columns(dest []any) []any // where to scan it
	read() (isRow bool)       // takes what was scanned; false: the other columns are empty
}

// slabSize is how many rows are allocated at once. One that is kept, because its handler runs for long, keeps the
// memory of the others, but not that of their payloads.
const slabSize = 32

func (s *claimScanner) next() *claimedRow {
	if len(s.slab) == 0 {
		s.slab = make([]claimedRow, min(slabSize, max(s.req.limit-len(s.rows), 1)))
	}
	row := &s.slab[0]
	s.slab = s.slab[1:]
	return row
}

// scan reads a row of the result. A row with a column that cannot be read has been claimed all the same, as have the
// other rows. It is marked, so that only its own delivery fails.
func (s *claimScanner) scan(scan func(...any) error) error {
	s.dest.values = s.dest.values[:0]
	if s.answer != nil {
		if isRow, err := s.scanAnswer(scan); !isRow {
			return err
		}
	}
	before := len(s.dest.values) // columns of the answer, which have been read
	row := s.next()
	s.rows = append(s.rows, row)
	row.Token = s.req.owner
	s.dest.values = append(s.dest.values, &row.ID, &row.DueAt, &row.CreatedAt, &row.Attempt, &row.MaxAttempts,
		&s.headers, &row.noted)
	row.body = s.req.target(&s.dest)
	err := scan(s.dest.values...)
	if err != nil {
		row.unreadable = fmt.Errorf("txwork: the row cannot be read: %w", err)
		err = s.scanEach(scan, before)
	}
	domain := s.dest.values[before+claimedColumns:]
	row.lane = s.lanes.of(domain)
	row.labels = telemetry.Pick(s.table.labels.claimed, domain)
	row.topic = pickTopic(s.table.topics, domain)
	row.Headers = header.Read(s.headers)
	return err
}

// scanAnswer reads what stands before the columns of a row, and leaves these columns to be skipped.
func (s *claimScanner) scanAnswer(scan func(...any) error) (isRow bool, err error) {
	s.dest.values = s.answer.columns(s.dest.values)
	n := len(s.dest.values)
	s.skip(claimedColumns + len(s.table.claimed))
	if err := scan(s.dest.values...); err != nil || !s.answer.read() {
		return false, err
	}
	s.dest.values = s.dest.values[:0]
	s.skip(n)
	return true, nil
}

// skip leaves the next n columns unread.
func (s *claimScanner) skip(n int) {
	for range n {
		s.dest.values = append(s.dest.values, conn.Unread{})
	}
}

// scanEach reads the columns of a row one by one, and skips those that cannot be read. Only an unreadable id, the first
// of them, is an error.
func (s *claimScanner) scanEach(scan func(...any) error, id int) error {
	one := make([]any, len(s.dest.values))
	for i := range s.dest.values {
		for j := range one {
			one[j] = conn.Unread{}
		}
		one[i] = s.dest.values[i]
		if err := scan(one...); err != nil && i == id {
			return err
		}
	}
	return nil
}

// anyTarget scans domain columns into values of whatever type the driver gives.
func (t *Table) anyTarget(c *Columns) any {
	values := make([]any, len(t.claimed))
	for i := range values {
		c.values = append(c.values, &values[i])
	}
	return values
}

func publicRows(claimed []*claimedRow) []Row {
	rows := make([]Row, len(claimed))
	for i, c := range claimed {
		rows[i] = c.Row
		rows[i].Values, _ = c.body.([]any)
	}
	return rows
}

// checkClaim checks a claim from one lane.
func (t *Table) checkClaim(req claimRequest) error {
	if req.owner.Version() != 8 || [6]byte(req.owner[:]) == [6]byte{} {
		return invalid("owner token", "is not of version 8 with a process: use NewOwnerToken, once for every claim")
	}
	return cmp.Or(t.checkLane(req.lanes[0].values), checkLease(req.lease), checkLimit(req.limit))
}

// A dueQuestion asks for the first due time in the lanes that was still to come when the question was asked before.
type dueQuestion struct {
	lanes [][]any
	since *time.Time // when it was asked before
	// The answer, by the database's clock.
	next  *dispatch.Wake
	asked time.Time
}

func (q *Queue) nextDue(ctx context.Context, d *dueQuestion) error { return q.exec.run(ctx, q.due(d)) }

// due is the question as a call. It is lazy, so that it can share the transaction of a claim: its answer may be lost
// like the claim.
func (q *Queue) due(d *dueQuestion) conn.Call {
	return conn.Call{
		Statement: q.table.statements().nextDue,
		Reads:     true,
		Lazy:      true,
		Args:      q.table.laneArgs(map[string]any{"since": d.since}, d.lanes),
		Reset:     func() { d.next = nil },
		Row: func(scan func(...any) error) error {
			var seconds *float64
			var due *time.Time
			err := scan(&d.asked, &seconds, &due)
			d.next = wakeAt(due, seconds)
			return err
		},
	}
}

// wakeAt is when a row is due, and in how many seconds; nil where there is none.
func wakeAt(due *time.Time, seconds *float64) *dispatch.Wake {
	if due == nil || seconds == nil {
		return nil
	}
	return &dispatch.Wake{At: *due, In: postgres.Seconds(*seconds)}
}
