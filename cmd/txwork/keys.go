package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// maxBehind is the largest number of rows behind a key that are counted.
const maxBehind = 1000

func newKeysCommand(a *app) *cobra.Command {
	var after string
	var limit int
	cmd := newCommand("keys TABLE", "Show what the rows of ordered keys wait for", cobra.ExactArgs(1))
	cmd.Flags().StringVar(&after, "after", "", "continue after this `key`, the last of the previous page")
	cmd.Flags().IntVar(&limit, "limit", defaultListLimit, "keys of a page")
	asJSON := jsonFlag(cmd, operate.Keys{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		progress := a.newWait("looking")
		defer progress.end()
		return a.withFacts(cmd.Context(), args[0], "concurrency_key", "keys", func(r survey.Reader,
			f *survey.Facts) error {
			p, err := operate.ReadKeys(cmd.Context(), r, f, after, limit, maxBehind)
			progress.end()
			if err != nil {
				return explain(err)
			}
			if *asJSON {
				return a.printJSON(p)
			}
			return a.printKeys(p)
		})
	}
	return cmd
}

func (a *app) printKeys(p operate.Keys) error {
	g := newGrid(a.stdout, "KEY", "WAITING", "OLDEST", "REASON", "BLOCKED BY", "ABOUT", "LAST ERROR")
	for _, k := range p.Keys {
		g.add(named(k.Key), brief(k.Waiting, k.AtLeast), rough(seconds(k.Oldest)), k.Reason,
			textOrDash(k.Blocker), namedOrDash(k.About), textOrDash(k.Error))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore(p.Next)
}

func textOrDash(text *string) string {
	if text == nil {
		return "-"
	}
	return dashed(*text)
}

// withFacts connects and reads what a table is like. The table must have the column that the question is about.
func (a *app) withFacts(ctx context.Context, name, column, what string,
	do func(survey.Reader, *survey.Facts) error) error {
	return a.withTable(ctx, name, func(d *database, t *workqueue.Table) error {
		r := survey.Reader{From: d.Pool, Limit: operate.ReadLimit}
		var all []survey.Facts
		err := r.Read(ctx, func(tx pgx.Tx) (err error) {
			all, err = survey.Tables(ctx, tx, d.Schema, operate.CountedRows, t.Spec().Table)
			return err
		})
		switch {
		case err != nil:
			return explain(err)
		case len(all) == 0:
			return fmt.Errorf("%s is gone", t.Name())
		case !all[0].Has(column):
			return usagef("%s has no %s", t.Name(), what)
		}
		return do(r, &all[0])
	})
}
