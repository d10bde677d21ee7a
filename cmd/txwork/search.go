package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// livesOnly tells whether all of the states are those of rows that have not ended. There are indexes of these rows
// only, so a list of them does not read what has ended.
func livesOnly(states []workqueue.State) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s workqueue.State) bool {
		return !slices.Contains(operate.LiveStates, string(s))
	})
}

// searchEnd returns where the search of a page ends: at the value that a query selects with a number of values to pass
// over as its last parameter. It is empty if there are not so many.
func searchEnd(ctx context.Context, tx workqueue.Tx, query string, args ...any) (end string, err error) {
	err = tx.Query(ctx, func(scan func(...any) error) error { return scan(&end) }, query,
		append(args, operate.MaxSearched-1)...)
	return end, err
}

// hintSearch says that a page has ended before it was full, and how to go on.
func (a *app) hintSearch(noun string, searched int, next string) error {
	_, err := fmt.Fprintf(a.stderr, "txwork: %s searched: --after %s goes on\n", plural(searched, noun),
		postgres.Shell(next))
	return err
}
