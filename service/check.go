package service

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// ErrRights says that the role lacks rights that the parts need.
var ErrRights = errors.New("the role lacks rights")

// checkParts refuses parts that cannot run together, and says which.
func checkParts(parts []Part) error {
	for i, p := range parts {
		if contain.IsNil(p) {
			return validate.Errorf("parts", "%d of %d is nil", i+1, len(parts))
		}
		if queue, both := twice(queues(p)); both {
			return validate.Errorf("parts", "%d serves %s twice", i+1, queue)
		}
		for other := range i {
			if queue, both := twice(queues(parts[other], p)); both {
				return validate.Errorf("parts", "%d and %d both serve %s: run one, with more Concurrency", other+1, i+1,
					queue)
			}
		}
	}
	return nil
}

// queues returns the names of the lanes, or tables without lanes, from which parts claim.
func queues(parts ...Part) (names []string) {
	for _, p := range parts {
		for _, w := range p.Workers() {
			lanes := w.Lanes()
			if len(lanes) == 0 {
				names = append(names, w.Tables()[0].Name())
			}
			for _, lane := range lanes {
				names = append(names, fmt.Sprintf("%s %v", w.Tables()[0].Name(), lane))
			}
		}
	}
	return names
}

// twice finds a name that occurs more than once.
func twice(names []string) (name string, found bool) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

// describe says what workers serve: for each its table, its first lane, and its number of handlers. A worker of parked
// messages is that of a relay, which serves a subscription of a log.
func describe(workers []*workqueue.Worker) (serves []string) {
	for _, w := range workers {
		text := w.Tables()[0].Name()
		if w.Tables()[0].Spec().Table == postgres.LogTable+"_parked" {
			text = strings.TrimSuffix(text, "_parked")
		}
		if lanes := w.Lanes(); len(lanes) > 0 {
			text += fmt.Sprintf(" %v", lanes[0][0])
		}
		serves = append(serves, fmt.Sprintf("%s × %d", text, w.Options().Concurrency))
	}
	return serves
}

// Pauses between two attempts to reach a database.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
	// checkTimeout bounds one attempt.
	checkTimeout = 10 * time.Second
)

// awaitDatabase checks the session, tables and rights, and retries until the database answers. If the context ends
// first, it returns nil.
func (s *Service) awaitDatabase(ctx context.Context, tables []*workqueue.Table) error {
	told := false
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := s.check(ctx, tables)
		if err == nil || errors.Is(err, workqueue.ErrSchemaVersion) || errors.Is(err, ErrRights) ||
			errors.Is(err, workqueue.ErrSession) || errors.Is(err, workqueue.ErrPoolMode) {
			return err
		}
		if ctx.Err() == nil && !told {
			told = true
			s.options.Logger.LogAttrs(ctx, slog.LevelError, "database does not answer; the service waits for it",
				slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// check reads the versions of the tables and the role's rights on them. It refuses a session that does not fit.
func (s *Service) check(ctx context.Context, of []*workqueue.Table) (err error) {
	defer func() { // the pool's hooks may panic
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, postgres.SelectFit); err != nil {
		return explain(err)
	}
	for _, t := range of {
		if err := t.CheckVersion(ctx, s.pool); err != nil {
			return err
		}
	}
	return explain(s.checkRights(ctx, of))
}

// explain adds the remedy, if one is known, to errors of this package's own statements.
func explain(err error) error {
	for _, explained := range []error{ErrRights, workqueue.ErrSchemaVersion, workqueue.ErrPoolMode,
		workqueue.ErrReadOnly} {
		if errors.Is(err, explained) {
			return err
		}
	}
	return postgres.Sentinels{ReadOnly: workqueue.ErrReadOnly, PoolMode: workqueue.ErrPoolMode,
		SchemaVersion: workqueue.ErrSchemaVersion, Session: workqueue.ErrSession}.Explain(err)
}

//go:embed sql/rights.sql
var rightsText string

func (s *Service) checkRights(ctx context.Context, of []*workqueue.Table) error {
	var schemas, tables, rights []string
	need := func(schema, table string, all ...string) {
		for _, right := range all {
			schemas, tables, rights = append(schemas, schema), append(tables, table), append(rights, right)
		}
	}
	for _, t := range of {
		need(t.Spec().Schema, t.Spec().Table, "SELECT", "UPDATE")
		if !s.options.MaintainedElsewhere {
			need(t.Spec().Schema, t.Spec().Table, "DELETE")
		}
	}
	if !s.options.MaintainedElsewhere {
		need(s.options.Reaper.Schema, "leader", "SELECT", "INSERT", "UPDATE")
	}
	rows, err := s.pool.Query(ctx, rightsText, schemas, tables, rights)
	if err != nil {
		return err
	}
	var lacking, in []string
	var schema, right string
	if _, err := pgx.ForEachRow(rows, []any{&schema, &right}, func() error {
		if lacking = append(lacking, right); !slices.Contains(in, schema) {
			in = append(in, schema)
		}
		return nil
	}); err != nil {
		return err
	}
	if len(lacking) == 0 {
		return s.checkLeader(ctx)
	}
	advice, err := s.grant(ctx, in)
	if err != nil {
		return err
	}
	return fmt.Errorf("txwork: %w: %s; %s", ErrRights, strings.Join(lacking, ", "), advice)
}

// grant says how the role gets the rights of a worker in some schemas.
func (s *Service) grant(ctx context.Context, schemas []string) (string, error) {
	advice := make([]string, len(schemas))
	for i, schema := range schemas {
		var g postgres.Grantee
		if err := s.pool.QueryRow(ctx, postgres.SelectGrantee, "worker", schema).Scan(g.Fields()...); err != nil {
			return "", err
		}
		advice[i] = g.Grant("worker", schema)
	}
	return strings.Join(advice, "; "), nil
}

// checkLeader reads the table in which reapers elect their leaders.
func (s *Service) checkLeader(ctx context.Context) error {
	if s.options.MaintainedElsewhere {
		return nil
	}
	_, err := reaper.Leaders(ctx, s.pool, s.options.Reaper.Schema)
	return err
}
