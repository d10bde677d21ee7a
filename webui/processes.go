package webui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/operate"
)

// A processesPage is what processes.html shows.
type processesPage struct {
	Reading   bool
	Age       time.Duration
	Processes []operate.Process
	Problem   string
	Cut       bool
}

// processes shows which processes run and what they serve, as far as they say so.
func processes(ctx context.Context, r *request) (view, error) {
	tables, figures, err := r.seen(ctx)
	if err != nil {
		return view{}, err
	}
	v := view{title: "Processes", page: "processes.html", tables: tables}
	if figures == nil {
		v.data = processesPage{Reading: true}
		return v, nil
	}
	p := processesPage{Age: time.Since(figures.At), Problem: figures.NoProcesses,
		Cut: len(figures.Processes) >= maxProcesses, Processes: r.processes(figures, tables)}
	v.data = p
	return v, nil
}

// processes are those that the user may see, with what they serve of the tables.
func (r *request) processes(figures *reading, tables []string) (all []operate.Process) {
	for _, one := range figures.Processes {
		hidden := func(w operate.Worker) bool { return !has(tables, w.Table) }
		one.Workers = slices.DeleteFunc(slices.Clone(one.Workers), hidden)
		if len(one.Workers) > 0 || r.user.seesAll() {
			all = append(all, one)
		}
	}
	return all
}

// lanesOf says which lanes a worker serves.
func lanesOf(w operate.Worker) string {
	var parts []string
	for column, values := range w.Lanes {
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = nameOf(fmt.Sprint(v))
		}
		parts = append(parts, nameOf(column)+": "+strings.Join(texts, ", "))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
