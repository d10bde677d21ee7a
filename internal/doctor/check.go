package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/txwork/txwork/workqueue"
)

// A check looks for one kind of problem.
type check struct {
	code     string
	severity Severity // least severity of its findings
	title    string   // what it finds, for the documentation
	from     string   // threshold, for the documentation; empty if there is none
	meaning  string   // what it means for the users of the system
	remedy   string   // for the documentation; a finding contains the actual command
	fixes    bool     // --fix may fix it
	look     func(context.Context, *examination) ([]Finding, error)
}

var (
	// checks lists all checks, by family.
	checks = slices.Concat(leaseChecks, runningChecks, schemaChecks, backlogChecks, deadLetterChecks, lastWeekChecks,
		alarmChecks, orderChecks, logChecks, vacuumChecks, wakeChecks, serverChecks)
	// besideChecks need little of what the others read. They take about half of the time.
	besideChecks = slices.Concat(schemaChecks, orderChecks, alarmChecks, logChecks)
	// otherChecks are all but those and the ones of the server.
	otherChecks = slices.DeleteFunc(slices.Clone(checks), func(c check) bool {
		is := func(of check) bool { return of.code == c.code }
		return slices.ContainsFunc(besideChecks, is) || slices.ContainsFunc(serverChecks, is)
	})
)

// inEachTable examines the facts of one table after the other. A failure in one table does not stop the others.
func inEachTable(look func(context.Context, *examination, *table) ([]Finding, error)) func(context.Context,
	*examination) ([]Finding, error) {
	return func(ctx context.Context, x *examination) (all []Finding, _ error) {
		for _, t := range x.tables {
			found, err := look(ctx, x, t)
			if err != nil {
				x.skip(ctx, x.current.code, t.Name, err)
			}
			for i := range found {
				found[i].Table = t.Name
			}
			all = append(all, found...)
		}
		return all, nil
	}
}

// inRowsOfEachTable examines rows. A table of which row-level security shows a part is examined, but not in full. It
// gives up a table that is locked or was too slow repeatedly: waiting for it in
// every check would take longer than an operator can wait.
func inRowsOfEachTable(look func(context.Context, *examination, *table) ([]Finding, error)) func(context.Context,
	*examination) ([]Finding, error) {
	each := inEachTable(func(ctx context.Context, x *examination, t *table) ([]Finding, error) {
		if t.gaveUp != nil {
			return nil, t.gaveUp
		}
		if t.Filtered {
			x.skip(ctx, x.current.code, t.Name, x.filtered())
		}
		found, err := look(ctx, x, t)
		t.note(err)
		return found, err
	})
	return func(ctx context.Context, x *examination) ([]Finding, error) {
		for _, name := range x.unmarked {
			x.skip(ctx, x.current.code, name, gap{"the table has the functions of the core, but not its comment: workers " +
				"refuse it, and its rows were not looked at", x.mark(name)})
		}
		return each(ctx, x)
	}
}

// mark says how a table gets the comment by which the core's tables are recognized.
func (x *examination) mark(name string) string {
	return fmt.Sprintf("COMMENT ON TABLE %s IS 'txwork core %d', if this version made it", quoted(x.Schema, name),
		workqueue.SchemaVersion)
}

// A Kind describes a kind of finding, for the documentation.
type Kind struct {
	Code     string
	Severity Severity
	Title    string
	From     string // threshold; empty if there is none
	Meaning  string
	Remedy   string
	Fixes    bool
}

// Kinds lists what the checks can find, in the order in which they run.
func Kinds() []Kind {
	kinds := make([]Kind, len(checks))
	for i, c := range checks {
		kinds[i] = Kind{c.code, c.severity, c.title, c.from, c.meaning, c.remedy, c.fixes}
	}
	return kinds
}
