package doctor

import (
	"context"
	"slices"
)

// A check looks for one kind of trouble.
type check struct {
	code     string
	severity Severity // of what it finds, where that is not worse
	title    string   // what it finds, for the documentation
	from     string   // from when on, for the documentation; empty: at once
	meaning  string   // for the users of the system
	remedy   string   // for the documentation; a finding has the command itself
	fixes    bool     // --fix may mend it
	look     func(context.Context, *examination) ([]Finding, error)
}

// checks are all there are, by family.
var checks = slices.Concat(leaseChecks, schemaChecks, backlogChecks, deadLetterChecks, orderChecks, vacuumChecks,
	wakeChecks, serverChecks)

// inEachTable looks at what the catalog and the statistics say of one table after the other. What fails for one keeps
// nobody from the others.
func inEachTable(look func(context.Context, *examination, *table) ([]Finding, error)) func(context.Context,
	*examination) ([]Finding, error) {
	return func(ctx context.Context, x *examination) (all []Finding, _ error) {
		for _, t := range x.tables {
			found, err := look(ctx, x, t)
			if err != nil {
				x.skip(x.current.code, t.Name, err)
			}
			for i := range found {
				found[i].Table = t.Name
			}
			all = append(all, found...)
		}
		return all, nil
	}
}

// inRowsOfEachTable looks at rows. A table that is locked, or slow again and again, is given up: to wait for it in each
// check would take longer than an operator has.
func inRowsOfEachTable(look func(context.Context, *examination, *table) ([]Finding, error)) func(context.Context,
	*examination) ([]Finding, error) {
	return inEachTable(func(ctx context.Context, x *examination, t *table) ([]Finding, error) {
		if t.gaveUp != nil {
			return nil, t.gaveUp
		}
		found, err := look(ctx, x, t)
		t.note(err)
		return found, err
	})
}

// A Kind of finding, for the documentation.
type Kind struct {
	Code     string
	Severity Severity
	Title    string
	From     string // from when on; empty: at once
	Meaning  string
	Remedy   string
	Fixes    bool
}

// Kinds lists what the checks can find, in the order in which they look.
func Kinds() []Kind {
	kinds := make([]Kind, len(checks))
	for i, c := range checks {
		kinds[i] = Kind{c.code, c.severity, c.title, c.from, c.meaning, c.remedy, c.fixes}
	}
	return kinds
}
