package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// A Sample is what the suite writes to a column, to see that it arrives as it was written.
type Sample struct {
	// Value is neither the column's zero value nor what the database would write by itself.
	Value any

	// With is what else such a row has, by column: where the table wants some columns together.
	With map[string]any

	// Over is a value just beyond the bound of a column that has no [workqueue.Bound], because the domain's own DDL
	// bounds it together with other columns.
	Over any

	// Unbounded is the reason why the table refuses no value of the column's type.
	Unbounded string
}

// byType is the reason of columns of which any value of the type will do.
const byType = "its type bounds it"

// bounded are the types whose values have a size of their own.
var bounded = []string{"bigint", "boolean", "date", "double precision", "integer", "smallint", "timestamptz", "uuid"}

// reason says why the table refuses no value of a column; empty: it has to have a bound.
func (x Sample) reason(c workqueue.Column) string {
	if x.Unbounded == "" && slices.Contains(bounded, c.Type) {
		return byType
	}
	return x.Unbounded
}

// problem is what is wrong with the sample of a column.
func (x Sample) problem(c workqueue.Column) string {
	switch {
	case x.Value == nil:
		return "has no sample. Add one to Samples of this test's conformance.Case: a Value that is neither zero nor " +
			"what the table writes by itself, and Over, a value beyond its bound, or the reason why it is Unbounded. " +
			"See \"Add a column\" in docs/domains.md"
	case reflect.ValueOf(x.Value).IsZero():
		return "has the zero value as its sample, which a column that is lost has, too"
	case c.Bound.Stored && (x.Over != nil || x.Unbounded != ""):
		return "has a Bound, from which its sample follows: leave out Over and Unbounded"
	case !c.Bound.Stored && x.Over == nil && x.reason(c) == "":
		return fmt.Sprintf("is of type %s and has no Bound that is Stored. Give it one, or its sample a value Over the "+
			"bound that the domain's own DDL has for it, or say why it is Unbounded", c.Type)
	case x.Over != nil && x.Unbounded != "":
		return "has a sample Over its bound, and a reason to have none"
	}
	return ""
}

// everyColumnHasASample fails for a column that nobody thought of when it was added.
func everyColumnHasASample(s *suite) {
	known := maps.Clone(s.Samples)
	for _, c := range s.Spec.Columns {
		if problem := known[c.Name].problem(c); problem != "" {
			s.Errorf("column %q %s", c.Name, problem)
		}
		delete(known, c.Name)
	}
	for name := range known {
		s.Errorf("Samples has %q, which is no column of %s", name, s.table.Name())
	}
}

// sample is a row with a value in a column.
func (s *suite) sample(column string, value any, with map[string]any) workqueue.NewRow {
	row := s.newRow()
	for i, c := range s.Spec.Columns {
		if c.Name == column {
			row.Values[i] = value
		} else if v, ok := with[c.Name]; ok {
			row.Values[i] = v
		}
	}
	return row
}

// samples are the rows with the sample of one column, by the place of that column. A column without a sample is left
// out: everyColumnHasASample reports it.
func (s *suite) samples() iter.Seq2[int, workqueue.NewRow] {
	return func(yield func(int, workqueue.NewRow) bool) {
		for i, c := range s.Spec.Columns {
			x := s.Samples[c.Name]
			if x.Value != nil && !yield(i, s.sample(c.Name, x.Value, x.With)) {
				return
			}
		}
	}
}

// columnsArrive writes each column by each way, and reads it from the table and in a claim.
func columnsArrive(s *suite) {
	for i, row := range s.samples() {
		c := s.Spec.Columns[i]
		for by, write := range s.writers(c, row) {
			id, err := s.insertOne(row, write)
			if err != nil {
				s.Errorf("%s: by %s: %v", c.Name, by, err)
				continue
			}
			s.stored(id, c, row.Values[i])
			if !c.Internal {
				s.claimedAs(id, c, row)
			}
			s.exec("DELETE FROM $T")
		}
	}
}

// A writer writes one row.
type writer func(ctx context.Context, o ops, row workqueue.NewRow) (workqueue.Enqueued, error)

// writers are the writers of a row, for which one of its columns matters: in SQL both functions if they have a
// parameter for it, and otherwise an INSERT.
func (s *suite) writers(c workqueue.Column, row workqueue.NewRow) map[string]writer {
	enqueue := func(ctx context.Context, o ops, row workqueue.NewRow) (e workqueue.Enqueued, err error) {
		all, err := o.enqueue(ctx, row)
		if err == nil {
			e = all[0]
		}
		return e, err
	}
	if !s.way.functions {
		return map[string]writer{"insert": enqueue}
	}
	if !(functionOps{spec: s.table.Spec()}).called(row).takes(c) {
		return map[string]writer{
			"INSERT": func(ctx context.Context, o ops, row workqueue.NewRow) (workqueue.Enqueued, error) {
				return o.(functionOps).inserted(ctx, row)
			},
		}
	}
	return map[string]writer{
		"the function for many rows": enqueue,
		"the function for one row": func(ctx context.Context, o ops, row workqueue.NewRow) (workqueue.Enqueued, error) {
			return o.(functionOps).calledOne(ctx, row)
		},
	}
}

func (s *suite) insertOne(row workqueue.NewRow, write writer) (id uuid.UUID, err error) {
	err = s.try(func(ctx context.Context, o ops) error {
		e, err := write(ctx, o, row)
		id = e.ID
		return err
	})
	return id, err
}

// stored compares a column with what was written. PostgreSQL compares, byte by byte where the type is text or bytea.
func (s *suite) stored(id uuid.UUID, c workqueue.Column, want any) {
	s.Helper()
	query := fmt.Sprintf("SELECT %q IS NOT DISTINCT FROM $2::%s FROM $T WHERE id = $1", c.Name, c.Type)
	if !scan[bool](s, query, id, want) {
		s.Errorf("%s: the table has %v, written was %v", c.Name, s.record(id)[c.Name], want)
	}
}

// claimedAs compares what a claim returns of a column with what is stored.
func (s *suite) claimedAs(id uuid.UUID, c workqueue.Column, row workqueue.NewRow) {
	s.Helper()
	s.set("waiting = false, due_at = now()", id) // where a key, a join or a time has the row wait
	var lane []any
	for _, name := range s.Spec.Lanes {
		lane = append(lane, row.Values[s.column(name)])
	}
	var rows []workqueue.Row
	s.do(func(ctx context.Context, o ops) (err error) {
		rows, err = o.fetch(ctx, workqueue.NewOwnerToken(), lease, 1, lane...)
		return err
	})
	equal(s, c.Name+": rows of the claim", len(rows), 1)
	claimed := slices.DeleteFunc(slices.Clone(s.Spec.Columns), func(c workqueue.Column) bool { return c.Internal })
	i := slices.IndexFunc(claimed, func(own workqueue.Column) bool { return own.Name == c.Name })
	s.stored(id, c, rows[0].Values[i])
}

func (s *suite) column(name string) int {
	return slices.IndexFunc(s.Spec.Columns, func(c workqueue.Column) bool { return c.Name == name })
}

// copiedColumnsArrive writes each column by a COPY, which no function and no Go checks.
func copiedColumnsArrive(s *suite) {
	for i, row := range s.samples() {
		c := s.Spec.Columns[i]
		if err := s.copy(row); err != nil {
			s.Errorf("%s: %v", c.Name, err)
			continue
		}
		s.stored(scan[uuid.UUID](s, "SELECT id FROM $T"), c, row.Values[i])
		s.exec("DELETE FROM $T")
	}
}

// copy writes the values of a row that are not NULL.
func (s *suite) copy(row workqueue.NewRow) error {
	names, values := []string{"due_at"}, []any{s.clock()}
	for i, c := range s.Spec.Columns {
		if row.Values[i] != nil {
			names, values = append(names, c.Name), append(values, row.Values[i])
		}
	}
	spec := s.table.Spec()
	_, err := s.eyes.CopyFrom(s.Context(), pgx.Identifier{spec.Schema, spec.Table}, names,
		pgx.CopyFromRows([][]any{values}))
	return err
}

// columnsAreBounded writes a value beyond the bound of each column that has one, by each way and by a COPY, to which
// only a bound that is Stored applies. A value at the bound is accepted.
func columnsAreBounded(s *suite) {
	for _, c := range s.Spec.Columns {
		x := s.Samples[c.Name]
		for _, over := range append(outside(c), x.Over) {
			if over == nil {
				continue
			}
			row := s.sample(c.Name, over, x.With)
			errs := map[string]error{}
			for by, write := range s.writers(c, row) {
				if by != "INSERT" || c.Bound.Stored || x.Over != nil {
					_, errs[by] = s.insertOne(row, write)
				}
			}
			if c.Bound.Stored || x.Over != nil {
				errs["COPY"] = s.copy(row)
			} else {
				s.ok(s.copy(row))
			}
			for by, err := range errs {
				var invalid *workqueue.InvalidError
				state := postgres.State(err)
				if !errors.As(err, &invalid) && !strings.HasPrefix(state, "22") && !strings.HasPrefix(state, "23") {
					s.Errorf("%s: by %s a value over its bound gives %v, want a refusal", c.Name, by, err)
				}
			}
			s.exec("DELETE FROM $T")
		}
		for _, within := range atBound(c) {
			row := s.sample(c.Name, within, x.With)
			for by, write := range s.writers(c, row) {
				if _, err := s.insertOne(row, write); err != nil {
					s.Errorf("%s: by %s a value at its bound (%s) is refused: %v", c.Name, by, c.Bounds(), err)
				}
				s.exec("DELETE FROM $T")
			}
		}
	}
}

// outside are the values just beyond the Bound of a column, and atBound those just within it.
func outside(c workqueue.Column) (values []any) {
	if c.Bound.Max != 0 {
		values = append(values, measured(c, c.Bound.Max+1))
	}
	if c.Bound.Min > 0 {
		values = append(values, measured(c, c.Bound.Min-1))
	}
	return values
}

func atBound(c workqueue.Column) (values []any) {
	for _, n := range []int64{c.Bound.Min, c.Bound.Max} {
		if n != 0 {
			values = append(values, measured(c, n))
		}
	}
	return values
}

// measured is a value of a column by its measure: a number, or so many bytes.
func measured(c workqueue.Column, n int64) any {
	switch c.Type {
	case "text":
		return strings.Repeat("k", int(n))
	case "bytea":
		return make([]byte, n)
	}
	return n
}

// onlyBoundsThatAreListed reads the conditions of single columns from the catalog: no sample shows one that the list of
// columns does not have.
func onlyBoundsThatAreListed(s *suite) {
	for _, c := range s.Spec.Columns {
		has := scan[string](s, `
			SELECT coalesce(string_agg(pg_get_constraintdef(k.oid), ', '), '')
			FROM pg_attribute AS a
			JOIN pg_constraint AS k ON k.contype = 'c'
				AND (k.contypid = a.atttypid OR k.conrelid = a.attrelid AND k.conkey = ARRAY[a.attnum])
			WHERE a.attrelid = '$T'::regclass AND a.attname = $1`, c.Name)
		switch listed := c.Bound.Stored || c.Type == "timestamptz" || s.Samples[c.Name].Over != nil; {
		case has != "" && !listed:
			s.Errorf("%s: the table has %s, and its Column no Bound that is Stored", c.Name, has)
		case has == "" && c.Bound.Stored:
			s.Errorf("%s: its Column has the Bound %s, and the table none", c.Name, c.Bounds())
		}
	}
}
