package join

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

var (
	// ErrEnded says that the join is no longer pending.
	ErrEnded = errors.New("join has ended")
)

// Status is the state of a join.
type Status int16

const (
	Pending   Status = 0 // not all steps have settled
	Completed Status = 1 // on-complete was released
	Failed    Status = 2 // on-fail was released
	Cancelled Status = 3 // neither was
)

var statusNames = [...]string{"pending", "completed", "failed", "cancelled"}

func (s Status) String() string { return name(statusNames[:], "status", int(s)) }

// Policy says when a join ends and how.
type Policy int16

const (
	// WaitAll waits for all steps. Then the join completes if none has failed, and fails otherwise.
	WaitAll Policy = 0
	// FailFast fails the join with its first failed step. The others run on and are counted as late.
	FailFast Policy = 1
	// AnyOutcome completes the join when all steps have ended, whether they succeeded or failed.
	AnyOutcome Policy = 2
)

var policyNames = [...]string{"wait_all", "fail_fast", "any_outcome"}

func (p Policy) String() string { return name(policyNames[:], "policy", int(p)) }

// Outcome is the counted outcome of a member.
type Outcome int16

const (
	None          Outcome = 0 // nothing yet
	StepSucceeded Outcome = 1 // Done, or deleted by its ack
	StepFailed    Outcome = 2 // Failed for any reason, or deleted before it settled
)

var outcomeNames = [...]string{"none", "succeeded", "failed"}

func (o Outcome) String() string { return name(outcomeNames[:], "outcome", int(o)) }

func name(names []string, kind string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}

// A Join describes a join for [Joins.Start].
type Join struct {
	// ID defaults to a new UUID version 7.
	ID uuid.UUID

	// Label informs operators and selects joins in [ListOptions]. Several joins may share one. At most [MaxLabel]
	// bytes.
	Label string

	// Members are the steps: rows of the table, inserted in this transaction or before. List each step once. A row may
	// be a step of several joins. A join without members completes with the next fold.
	Members []uuid.UUID

	// OnComplete is the row that is released when the join completes. It has to be inserted with NewRow.Waiting, and
	// must not continue another join. Optional.
	OnComplete uuid.UUID

	// OnFail is the row that is released when the join fails. Optional. It may be the same row as
	// OnComplete, which is then released either way.
	OnFail uuid.UUID

	// Policy defaults to [WaitAll].
	Policy Policy

	// Deadline fails the join if it is still pending at that time, by the database's clock. Zero means none.
	Deadline time.Time
}

// A State is the current state of a join.
type State struct {
	ID     uuid.UUID
	Label  string
	Status Status
	Policy Policy

	Expected  int // steps
	Succeeded int // steps that succeeded, counted while the join was pending
	Failed    int // steps that failed, counted while the join was pending
	Late      int // steps that settled after the join had ended

	OnComplete, OnFail uuid.UUID // zero: none
	Deadline           time.Time // zero: none
	LastError          string    // why it failed or was cancelled
	CreatedAt          time.Time
	CompletedAt        time.Time // zero while it is pending
}

// A Member is a step of a join.
type Member struct {
	ID      uuid.UUID
	Outcome Outcome // counted while the join was pending
	Late    Outcome // settled after it had ended
}

// MaxLabel is the limit of a label, in bytes.
const MaxLabel = 255

// Joins are the joins of one table. It holds no connection and is safe for concurrent use.
type Joins struct {
	table      *workqueue.Table
	view       view
	statements map[string]string
}

// Open renders the statements for a table whose Spec has [Column]. It does not touch the database.
func Open(table *workqueue.Table) (*Joins, error) {
	if table == nil {
		return nil, validate.Errorf("table", "is nil")
	}
	v, err := newView(table.Spec())
	if err != nil {
		return nil, err
	}
	j := &Joins{table: table, view: v, statements: map[string]string{}}
	for _, t := range statementTemplates().Templates() {
		file := t.Name()[:len(t.Name())-len(".sql")]
		j.statements[file] = sqltext.Statement(statementTemplates, file, v)
	}
	return j, nil
}
