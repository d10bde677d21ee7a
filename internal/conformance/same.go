package conformance

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The ways that run the same tests.
const (
	goWay  = "pgx"
	sqlWay = "functions"
)

// An exception is a test that runs through pgx, but not through the functions, and why. The name of a test is that of
// all tests below it.
type exception struct {
	name, reason string
	of           func(Case) bool // nil: every table
}

// applies reports whether the table has the exception.
func (e exception) applies(c Case) bool { return e.of == nil || e.of(c) }

// onlyInGo are all exceptions.
var onlyInGo = []exception{
	{"input/nil transaction", "a transaction is a value of Go", nil},
	{"table/next wake at", "NextWakeAt tells a time, and ends of leases; a fetch says in how many seconds to come again, a " +
		"minute at most, and who reaps comes every minute", nil},
	{"input/refused/insert with a value too few", "a NewRow has values by their place, an object has fields by name", nil},
	{"input/refused/insert with a value too many", "as above", nil},
	{"input/refused/insert with no values", "as above", nil},
	{"input/refused/claim of a lane too few", "lanes are parameters with names, and some have defaults", hasLanes},
	{"input/refused/sweep of 0", "the table has no function for a sweep", hasNoSweeps},
	{"input/refused/sweep of -1", "the table has no function for a sweep", hasNoSweeps},
	{"insert/in the past", "no function writes the table, and an INSERT stores the time as it is", hasNoWriter},
	{"input/refused/insert with a time before 1970", "no function writes the table", hasNoWriter},
}

// isOnlyInGo reports whether a test is an exception.
func isOnlyInGo(c Case, name string) bool {
	return slices.ContainsFunc(onlyInGo, func(e exception) bool { return e.name == name && e.applies(c) })
}

func hasLanes(c Case) bool { return len(c.Spec.Lanes) > 0 }

func hasNoWriter(c Case) bool { return c.Spec.Writer.None }

func hasNoSweeps(c Case) bool { return len(c.Spec.Sweeps) == 0 }

// names are the tests that ran, by the way and below it.
type names struct {
	mu   sync.Mutex
	ways map[string]map[string]bool
}

// add records a test by its whole name: that of the table's test, the way, and the rest.
func (n *names) add(name string) {
	if n == nil {
		return
	}
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ways == nil {
		n.ways = map[string]map[string]bool{}
	}
	if n.ways[parts[1]] == nil {
		n.ways[parts[1]] = map[string]bool{}
	}
	n.ways[parts[1]][parts[2]] = true
}

// compare fails for a test that ran through pgx and not through the functions, or the other way round, unless it is in
// the lists of such tests. If tests were chosen by their names, there is nothing to compare.
func (n *names) compare(t *testing.T, c Case) {
	chosen := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String()
	if t.Failed() || strings.Contains(chosen, "/") {
		return
	}
	for _, problem := range differences(n.ways[goWay], n.ways[sqlWay], c) {
		t.Error(problem)
	}
	t.Logf("%d tests through %s, %d through the functions", len(n.ways[goWay]), goWay, len(n.ways[sqlWay]))
}

// differences are the tests that only one of the ways runs although no list says so, and exceptions without need.
func differences(inGo, inSQL map[string]bool, c Case) (problems []string) {
	has := func(test, name string) bool {
		test = strings.ReplaceAll(test, " ", "_")
		return name == test || strings.HasPrefix(name, test+"/")
	}
	needed := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(inGo)) {
		i := slices.IndexFunc(onlyInGo, func(e exception) bool { return has(e.name, name) && e.applies(c) })
		if i >= 0 {
			needed[onlyInGo[i].name] = true
		}
		switch {
		case inSQL[name] && i >= 0:
			problems = append(problems, name+" runs through the functions: it is no exception any more")
		case !inSQL[name] && i < 0:
			problems = append(problems, name+" does not run through the functions")
		}
	}
	for _, e := range onlyInGo {
		if !needed[e.name] && e.applies(c) {
			problems = append(problems, e.name+" is an exception, and no test through pgx")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inSQL)) {
		if !inGo[name] && !slices.ContainsFunc(sqlFunctions, func(t test) bool {
			return has(t.name, name)
		}) {
			problems = append(problems, name+" runs through the functions only")
		}
	}
	return problems
}
