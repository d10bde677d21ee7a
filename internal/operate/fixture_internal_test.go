package operate

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

// A fixture is one table in a schema of its own, as an operator has it.
type fixture struct {
	*testing.T
	*DB
	table *workqueue.Table
	test  *pgtest.DB
}

// newFixture creates the table of a Spec in a schema of its own.
func newFixture(t *testing.T, of func(schema string) workqueue.Spec,
	ddl func(schema string) (up, down string, err error)) *fixture {
	t.Helper()
	test := pgtest.New(t)
	f := &fixture{T: t, DB: &DB{Pool: test.Pool, Schema: test.Schema}, test: test}
	up, _, err := ddl(test.Schema)
	f.ok(err)
	test.Define(t, up)
	f.table, err = workqueue.Open(of(test.Schema), workqueue.Telemetry{})
	f.ok(err)
	return f
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// exec runs a statement in which {table} is the table.
func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	_, err := f.Pool.Exec(f.Context(), named(query, f.table), args...)
	f.ok(err)
}

// list reads a page.
func (f *fixture) list(o ListOptions) *Page {
	f.Helper()
	p, err := f.DB.List(f.Context(), f.table, o, func(int) {})
	f.ok(err)
	return p
}

// pages returns how many pages of the table do reads.
func (f *fixture) pages(do func(ctx context.Context)) int {
	f.Helper()
	return pgtest.Pages(f, f.Pool, f.table.Name(), func() { do(f.Context()) })
}

func named(query string, t *workqueue.Table) string {
	return strings.ReplaceAll(query, "{table}", t.Name())
}
