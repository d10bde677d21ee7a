package conn

import (
	"fmt"
	"reflect"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Rows is what pgx.Rows and *sql.Rows share.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// Unread takes a column of any type and keeps nothing.
type Unread struct{}

// Scan implements [sql.Scanner], for database/sql.
func (Unread) Scan(any) error { return nil }

// EachRow calls row, unless it is nil, for every row.
func EachRow(rs Rows, row func(scan func(...any) error) error) error {
	scan := rs.Scan
	for rs.Next() {
		if row == nil {
			continue
		}
		if err := row(scan); err != nil {
			return err
		}
	}
	return rs.Err()
}

// pgxRows lets pgx decode ids in its binary form instead of through sql.Scanner and a string.
type pgxRows struct {
	pgx.Rows
	plans []scanPlan // of each column
}

// EachPgxRow is EachRow for pgx, with ids in its binary form.
func EachPgxRow(rs pgx.Rows, row func(scan func(...any) error) error) error {
	return EachRow(&pgxRows{Rows: rs}, row)
}

// A scanPlan scans a column into a destination of a type. It is kept, because finding it takes longer than using it.
type scanPlan struct {
	dest reflect.Type
	plan pgtype.ScanPlan
}

// Scan differs from that of pgx in that an error does not close the rows: the next may be fine, and this
// one may be scanned again.
func (r *pgxRows) Scan(dest ...any) error {
	fields, values := r.FieldDescriptions(), r.RawValues()
	if len(dest) != len(fields) {
		return fmt.Errorf("txwork: %d destinations for %d columns", len(dest), len(fields))
	}
	if r.plans == nil {
		r.plans = make([]scanPlan, len(fields))
	}
	for i, d := range dest {
		if id, ok := d.(*uuid.UUID); ok {
			d = (*[16]byte)(id)
		}
		if _, ok := d.(Unread); ok || d == nil {
			continue
		}
		p := &r.plans[i]
		if t := reflect.TypeOf(d); p.dest != t {
			*p = scanPlan{t, r.Conn().TypeMap().PlanScan(fields[i].DataTypeOID, fields[i].Format, d)}
		}
		if err := p.plan.Scan(values[i], d); err != nil {
			return fmt.Errorf("column %s: %w", fields[i].Name, err)
		}
	}
	return nil
}
