package results_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/txwork/txwork/bench/results"
	"github.com/txwork/txwork/internal/measure"
)

var header = results.Header{Commit: "c", Postgres: "15.1", CPUs: 2, Options: results.Options{Jobs: 10}}

func cell(round int) results.Cell {
	return results.Cell{Key: results.Key{Workload: results.Drain, Entrant: results.Entrant{Peer: "p", Profile: "q"},
		Round: round}, Jobs: 10, PerSecond: 5}
}

func create(t *testing.T, cells ...results.Cell) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "r.json")
	f, err := results.Create(path, header)
	if err != nil {
		t.Fatal(err)
	}
	add(t, f, cells...)
	return path
}

func add(t *testing.T, f *results.File, cells ...results.Cell) {
	t.Helper()
	for _, c := range cells {
		if err := f.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []results.Cell {
	t.Helper()
	h, cells, err := results.Read(path)
	if err != nil || h != header {
		t.Fatalf("Read: header %+v, %v", h, err)
	}
	return cells
}

func TestCellsAreReadAsWritten(t *testing.T) {
	cpu := 1.5
	full := cell(1)
	full.Costs = measure.Costs{WALBytes: 1, ServerCPU: &cpu, ClientCPU: 2}
	full.FillCosts = &measure.Costs{WALBytes: 3}
	want := []results.Cell{full, cell(2)}
	if got := read(t, create(t, want...)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestARunGoesOnBehindALineThatWasCutOff(t *testing.T) {
	path := create(t, cell(1))
	text, _ := os.ReadFile(path)
	if err := os.WriteFile(path, append(text, `{"workload":"dra`...), 0o644); err != nil {
		t.Fatal(err)
	}
	f, done, err := results.Append(path, header)
	if err != nil || len(done) != 1 {
		t.Fatalf("Append: %+v, %v", done, err)
	}
	add(t, f, cell(2))
	if got, want := read(t, path), []results.Cell{cell(1), cell(2)}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestTheLastOfSeveralAttemptsCounts(t *testing.T) {
	failed := cell(1)
	failed.Error = "no"
	if got, want := read(t, create(t, failed, cell(2), cell(1))),
		[]results.Cell{cell(1), cell(2)}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestOtherConditionsAreRefused(t *testing.T) {
	other := header
	other.Options.Jobs++
	if _, _, err := results.Append(create(t), other); err == nil {
		t.Error("results of different sizes were mixed")
	}
}
