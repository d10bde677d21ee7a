package txworktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A Fault is a failure before or after a handler's call, for a row. If it returns an error, that replaces the handler's
// result.
type Fault func(ctx context.Context, row uuid.UUID) error

// Faults are points at which something goes wrong: a call of a handler that [Inject] has wrapped, or a statement of a
// pool that [Faults.Watch] has configured. A planned fault that is not reached fails the test, because the test has
// then shown nothing.
//
// It is safe for concurrent use.
type Faults struct {
	t    testing.TB
	name string // of the watched connections

	mu      sync.Mutex
	calls   int
	planned map[moment]Fault

	admin      *pgx.ConnConfig // of the watched pools' server
	statements []*statementFault
}

// moment is the time before or after a call.
type moment struct {
	call  int
	after bool
}

func (m moment) String() string {
	if m.after {
		return fmt.Sprintf("after call %d", m.call)
	}
	return fmt.Sprintf("before call %d", m.call)
}

// NewFaults returns Faults with none planned.
func NewFaults(t testing.TB) *Faults {
	f := &Faults{t: t, name: "txworktest " + rand.Text(), planned: map[moment]Fault{}}
	t.Cleanup(f.check)
	return f
}

// Before plans a fault before the n-th call of any wrapped handler, counted from 1. If the fault returns an error, the
// handler is not called.
func (f *Faults) Before(n int, fault Fault) { f.plan(moment{n, false}, fault) }

// After plans a fault after the n-th call: the handler has done its work, and its result is about to be settled. Use it
// to test whether a handler may run twice.
func (f *Faults) After(n int, fault Fault) { f.plan(moment{n, true}, fault) }

func (f *Faults) plan(m moment, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.call < 1 || fault == nil || f.planned[m] != nil {
		panic(fmt.Sprintf("txworktest: a fault %v: calls count from 1, and each moment has one fault", m))
	}
	f.planned[m] = fault
}

// Calls returns how often the wrapped handlers were called.
func (f *Faults) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *Faults) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for m := range f.planned {
		f.t.Errorf("txworktest: the fault %v was not reached: there were %d", m, f.calls)
	}
	for _, s := range f.statements {
		if s.left > 0 {
			f.t.Errorf("txworktest: the fault at %q was not reached: %d more of these statements were awaited",
				s.contains, s.left)
		}
	}
}

// Inject wraps a handler of a domain or of package workqueue: any handler whose delivery has a field ID. To reach the
// handlers of a worker that an application has made, use the worker's Wrap before the worker runs or is drained:
//
//	relay.Wrap(func(h outbox.Handler) outbox.Handler { return txworktest.Inject(faults, h) })
func Inject[D any](f *Faults, handle func(ctx context.Context, d D) error) func(context.Context, D) error {
	return func(ctx context.Context, d D) error {
		return f.around(ctx, d, func() error { return handle(ctx, d) })
	}
}

// InjectIn is [Inject] for domains whose handlers run in a transaction, such as the inbox. Faults after a call happen
// before this transaction commits.
func InjectIn[Tx, D any](f *Faults, handle func(ctx context.Context, tx Tx, d D) error) func(context.Context, Tx,
	D) error {
	return func(ctx context.Context, tx Tx, d D) error {
		return f.around(ctx, d, func() error { return handle(ctx, tx, d) })
	}
}

func (f *Faults) around(ctx context.Context, d any, handle func() error) error {
	before, after := f.next()
	row := rowOf(d)
	if before != nil {
		if err := before(ctx, row); err != nil {
			return err
		}
	}
	err := handle()
	if after != nil {
		if fault := after(ctx, row); fault != nil {
			return fault
		}
	}
	return err
}

// next counts a call and returns its faults.
func (f *Faults) next() (before, after Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	return f.take(moment{f.calls, false}), f.take(moment{f.calls, true})
}

func (f *Faults) take(m moment) Fault {
	fault := f.planned[m]
	delete(f.planned, m)
	return fault
}

// rowOf returns the id of a delivery, a claim or a job: each has a field ID, itself or in an embedded struct.
func rowOf(d any) uuid.UUID {
	v := reflect.Indirect(reflect.ValueOf(d))
	if v.Kind() == reflect.Struct {
		if field := v.FieldByName("ID"); field.IsValid() {
			if id, ok := field.Interface().(uuid.UUID); ok {
				return id
			}
		}
	}
	panic(fmt.Sprintf("txworktest: %T has no field ID: it is no delivery", d))
}
