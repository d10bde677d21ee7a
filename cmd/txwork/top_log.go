package main

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

// lateTop is from when on a subscription is marked, in seconds: as the doctor would.
const lateTop = 120

// log adds the log of the schema to the frame.
func (f *topFrame) log(ctx context.Context, r survey.Reader) {
	l, err := survey.LogOf(ctx, r, f.Schema)
	if f.skip("the log", err) || l == nil {
		return
	}
	log, err := operate.ReadLog(ctx, r, l)
	if f.skip("subscriptions of "+l.Name, err) {
		return
	}
	if log.Hidden {
		f.skip("subscriptions of "+l.Name, errFiltered)
	}
	f.Logs = append(f.Logs, log)
}

func logTable(l *operate.Log) topTable {
	t := topTable{none: "there is none", title: fmt.Sprintf("SUBSCRIPTIONS of %s  tick %d, %s ago  %s", l.Table, l.Tick,
		rough(seconds(l.TickAge)), kilobytes(l.Bytes))}
	if l.Unticked > 0 {
		t.title += "  not ticked for " + rough(seconds(l.Unticked))
	}
	if l.Restored {
		t.title += "  RESTORED: rebase it"
	}
	t.columns = []topColumn{
		{head: "NAME", left: true, grows: true}, {head: "STATE", left: true}, {head: "LANES"}, {head: "IN HAND"},
		{head: "MESSAGES"}, {head: "BEHIND"}, {head: "PARKED"}, {head: "DEAD"}, {head: "RETAINED"},
	}
	for _, s := range l.Subscriptions {
		r := topRow{cells: []string{named(s.Name), subscriptionState(&s), fmt.Sprint(len(s.Lanes)),
			fmt.Sprint(s.InHand), brief(s.Messages, s.AtLeast), ageOrDash(s.Behind), fmt.Sprint(s.Live),
			fmt.Sprint(s.DeadLetters), kilobytes(s.Retained)}}
		if s.Behind > lateTop || s.Rest != nil {
			r.style = warning
		}
		t.rows = append(t.rows, r)
		if s.Rest != nil {
			t.notes = append(t.notes, restLine(s.Name, s.Rest))
		}
	}
	return t
}
