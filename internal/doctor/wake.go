package doctor

import (
	"context"
	"fmt"
	"strings"
)

// wakeChecks are about what wakes workers, and about who keeps them waiting.
var wakeChecks = []check{
	{
		code: "stuck-announcer", severity: Critical,
		title:   "a session that has the announcer's lock and announces nothing",
		from:    rough(defaultThresholds.Announcer),
		meaning: "Producers leave notifications to it, so workers are woken by their polls alone: everything starts up to a poll interval late.",
		remedy:  "`pg_terminate_backend` of the session",
		look:    inEachTable(stuckAnnouncer),
	},
	{
		code: "notify-queue", severity: Warning,
		title:   "the server's queue of notifications, which fills because a listener does not read",
		from:    fmt.Sprintf("%.0f %%; critical from %.0f %%", 100*defaultThresholds.Notify, 500*defaultThresholds.Notify),
		meaning: "When it is full, every transaction of the database that notifies fails, and so does every enqueue.",
		remedy:  "end the oldest transaction of a session that listens",
		look:    notifyQueue,
	},
	{
		code: "lock-wait", severity: Warning,
		title:   "sessions that wait for a lock on the queues' tables or rows, and who has it",
		from:    rough(defaultThresholds.LockWait),
		meaning: "Workers, producers or migrations stand still until the holder ends.",
		remedy:  "`pg_terminate_backend` of the holder",
		look:    lockWaits,
	},
}

func stuckAnnouncer(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	type announcer struct {
		PID               int32
		Application, Role string
		State             string
		Silent            float64
	}
	list, err := readRows[announcer](ctx, x, "announcer", nil, t.schema+"."+t.name+" announcer", x.Thresholds.Announcer.Seconds())
	for _, a := range list {
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: session %d (%s) has the announcer's lock and has said nothing for %s", t.name, a.PID, orUnknown(a.Application, a.Role), rough(seconds(a.Silent))),
			Evidence: []Evidence{evidence("pid", a.PID, "application", a.Application, "role", a.Role, "state", a.State, "silent_seconds", seconds(a.Silent),
				"lock", t.schema+"."+t.name+" announcer")},
			Remedy: Remedy{Do: "End the session: another process announces then.", SQL: []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", a.PID)}},
		})
	}
	return all, err
}

func notifyQueue(ctx context.Context, x *examination) ([]Finding, error) {
	type usage struct{ Used float64 }
	list, err := readRows[usage](ctx, x, "notify", nil)
	if err != nil || len(list) == 0 || list[0].Used <= x.Thresholds.Notify {
		return nil, err
	}
	f := Finding{
		Title:  fmt.Sprintf("the server's queue of notifications is full to %.4g %%", 100*list[0].Used),
		Remedy: Remedy{Do: "A session that listens and stays in a transaction keeps it. Set idle_in_transaction_session_timeout for such roles."},
	}
	if list[0].Used > 5*x.Thresholds.Notify {
		f.Severity = Critical
	}
	f.Evidence = []Evidence{evidence("used", list[0].Used)}
	type session struct {
		PID               int32
		Application, Role string
		State             string
		Age               float64
	}
	sessions, err := readRows[session](ctx, x, "oldest_transactions", nil, maxShown)
	for _, s := range sessions {
		f.Evidence = append(f.Evidence, evidence("pid", s.PID, "application", s.Application, "role", s.Role, "state", s.State, "age_seconds", seconds(s.Age)))
	}
	if len(sessions) > 0 {
		f.Remedy.Do += " End the oldest:"
		f.Remedy.SQL = []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", sessions[0].PID)}
	}
	return []Finding{f}, err
}

// A lockWait is one session that waits, and one that it waits for.
type lockWait struct {
	PID                        int32
	Application, Query, Waited string
	Seconds                    float64
	Holder                     int32
	HolderApplication          string
	HolderRole, HolderState    string
	HolderQuery                string
	HolderSeconds              *float64
}

func lockWaits(ctx context.Context, x *examination) (all []Finding, err error) {
	list, err := readRows[lockWait](ctx, x, "waits", nil, x.Schema, x.Thresholds.LockWait.Seconds(), maxLanes)
	by := map[int32]int{} // where the finding of a holder is
	for _, w := range list {
		i, known := by[w.Holder]
		if !known {
			held := ""
			if w.HolderSeconds != nil {
				held = " for " + rough(seconds(*w.HolderSeconds))
			}
			f := Finding{
				Title: fmt.Sprintf("session %d (%s) has a lock%s that others wait for, since up to %s", w.Holder, orUnknown(w.HolderApplication, w.HolderRole), held, rough(seconds(w.Seconds))),
				Evidence: []Evidence{evidence("holder_pid", w.Holder, "application", w.HolderApplication, "role", w.HolderRole, "state", w.HolderState,
					"query", oneLine(w.HolderQuery))},
				Remedy: Remedy{Do: "Have its program end the transaction, or end the session.", SQL: []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", w.Holder)}},
			}
			i = len(all)
			by[w.Holder] = i
			all = append(all, f)
		}
		if len(all[i].Evidence) <= maxShown {
			all[i].Evidence = append(all[i].Evidence, evidence("waiting_pid", w.PID, "application", w.Application, "for", w.Waited,
				"waits_seconds", seconds(w.Seconds), "query", oneLine(w.Query)))
		}
	}
	return all, err
}

// oneLine is a statement for one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
