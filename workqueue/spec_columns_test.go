package workqueue_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A parcel has a field for each rule of a list.
type parcel struct {
	name, note string
	body       []byte
	weight     int64
	hash       []byte
	id         uuid.UUID
}

func (p *parcel) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "name", Type: "text", NotNull: true}, &p.name)
	c.Field(workqueue.Column{Name: "note", Type: "text"}, &p.note)
	c.Field(workqueue.Column{Name: "body", Type: "bytea", NotNull: true}, &p.body)
	c.Field(workqueue.Column{Name: "weight", Type: "bigint", NotNull: true}, &p.weight)
	c.Field(workqueue.Column{Name: "hash", Type: "bytea"}, &p.hash)
	c.Split(workqueue.Column{Name: "id_of_sender", Type: "uuid"}, &p.id, nil)
}

func TestValuesOfAList(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	full := parcel{"a", "b", []byte("c"), 4, []byte("e"), id}
	want := []any{"a", "b", []byte("c"), int64(4), []byte("e"), id}
	if got := workqueue.ValuesOf(&full, (*parcel).columns); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	want = []any{"", nil, []byte{}, int64(0), nil, uuid.Nil}
	if got := workqueue.ValuesOf(&parcel{}, (*parcel).columns); !reflect.DeepEqual(got, want) {
		t.Errorf("of nothing: %#v", got)
	}
}

// A worker reads into the fields what was written from them, NULL included.
func TestAListIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Columns = workqueue.ColumnsOf((*parcel).columns) }})
	for _, want := range []parcel{{name: "a", note: "b", body: []byte("c"), weight: 4, hash: []byte("e")},
		{name: "a", body: []byte{}}} {
		r.insertRows(workqueue.NewRow{Values: workqueue.ValuesOf(&want, (*parcel).columns)})
		var got parcel
		w, err := workqueue.NewWorker(r.Pool, workqueue.Domain[parcel]{Table: r.Table, Columns: (*parcel).columns},
			func(_ context.Context, c *workqueue.Claim[parcel]) error { got = c.Body; return nil },
			workqueue.WorkerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.process(r.drain(w.Drain()), 1)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestAWorkerRefusesTheListOfAnotherTable(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ignore := func(context.Context, *workqueue.Claim[parcel]) error { return nil }
	for want, list := range map[string]func(*parcel, *workqueue.Columns){
		"lists the columns (name, note, body, weight, hash, id_of_sender), claims of": (*parcel).columns,
		"lists the columns (), claims of":                                             nil,
		"return (topic, payload)":                                                     nil,
	} {
		_, err := workqueue.NewWorker(r.Pool, workqueue.Domain[parcel]{Table: r.Table, Columns: list}, ignore,
			workqueue.WorkerOptions{})
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAWorkerRefusesFieldsThatItCannotStoreIn(t *testing.T) {
	t.Parallel()
	number, twice := workqueue.Column{Name: "number", Type: "text"}, workqueue.Column{Name: "twice", Type: "text"}
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Columns = []workqueue.Column{number, twice} }})
	ignore := func(context.Context, *workqueue.Claim[parcel]) error { return nil }
	for want, list := range map[string]func(*parcel, *workqueue.Columns){
		"number is listed with a string": func(p *parcel, c *workqueue.Columns) {
			c.Field(number, p.name)
			c.Field(twice, &p.note)
		},
		"twice is listed with the field of another column": func(p *parcel, c *workqueue.Columns) {
			c.Field(number, &p.name)
			c.Split(twice, &p.note, &p.name)
		},
	} {
		_, err := workqueue.NewWorker(r.Pool, workqueue.Domain[parcel]{Table: r.Table, Columns: list}, ignore,
			workqueue.WorkerOptions{})
		if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
