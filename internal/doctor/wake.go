package doctor

import (
	"context"
	"fmt"
	"strings"
)

// wakeChecks examine what wakes workers, and which sessions keep them waiting.
var wakeChecks = []check{
	{
		code: "stuck-announcer", severity: Critical,
		title: "a session that holds the announcer's lock and announces nothing",
		from:  rough(defaultThresholds.Announcer),
		meaning: "Producers rely on it and do not notify, so workers find rows only when they poll: work starts up " +
			"to a poll interval late.",
		remedy: "`pg_terminate_backend` of the session",
		look:   inEachTable(stuckAnnouncer),
	},
	{
		code: "notify-queue", severity: Warning,
		title: "the server's notification queue is filling up, because a listener does not read it",
		from: fmt.Sprintf("%.0f %%; critical from %.0f %%", 100*defaultThresholds.Notify,
			500*defaultThresholds.Notify),
		meaning: "From 90 % on, txwork notifies nobody, and workers find rows only when they poll. When it is full, " +
			"every other transaction that notifies fails at its commit.",
		remedy: "end the oldest transaction of a listening session",
		look:   notifyQueue,
	},
	{
		code: "lock-wait", severity: Warning,
		title:   "sessions that wait for a lock on tables or rows of the queues, and who holds it",
		from:    rough(defaultThresholds.LockWait),
		meaning: "Workers, producers or migrations are blocked until the holder ends.",
		remedy:  "`pg_terminate_backend` of the holder",
		look:    lockWaits,
	},
}

// An announcer is a session that holds the lock of a table's announcer, and has been silent.
type announcer struct {
	Table             string // with its schema
	PID               int32
	Application, Role string
	State             string
	Silent            *float64
}

// announcers are those of all tables.
type announcers struct {
	list []announcer
	err  error
}

// readAnnouncers reads the announcers, once.
func (x *examination) readAnnouncers(ctx context.Context) ([]announcer, error) {
	if x.announcers == nil {
		var names []string
		for _, t := range x.tables {
			names = append(names, t.Schema+"."+t.Name)
		}
		x.announcers = &announcers{}
		x.announcers.list, x.announcers.err = readRows[announcer](ctx, x, "announcers", nil, names,
			x.Thresholds.Announcer.Seconds())
	}
	return x.announcers.list, x.announcers.err
}

func stuckAnnouncer(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, err := x.readAnnouncers(ctx)
	for _, a := range list {
		if a.Table != t.Schema+"."+t.Name {
			continue
		}
		if a.Silent == nil {
			x.skip(ctx, x.current.code, t.Name, x.hidden(1))
			continue
		}
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: session %d (%s) holds the announcer's lock and has been silent for %s", t.Name,
				a.PID, orUnknown(a.Application, a.Role), rough(seconds(*a.Silent))),
			Evidence: []Evidence{evidence("pid", a.PID, "application", a.Application, "role", a.Role, "state",
				a.State, "silent_seconds", seconds(*a.Silent), "lock", a.Table+" announcer")},
			Remedy: Remedy{Do: "End the session: another process then announces.",
				SQL: []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", a.PID)}},
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
		Title: fmt.Sprintf("the server's notification queue is %.4g %% full", 100*list[0].Used),
		Remedy: Remedy{Do: "A listening session that stays in a transaction holds it up. Set " +
			"idle_in_transaction_session_timeout for such roles."},
	}
	if list[0].Used > 5*x.Thresholds.Notify {
		f.Severity = Critical
	}
	f.Evidence = []Evidence{evidence("used", list[0].Used)}
	err = x.addOldest(ctx, &f)
	return []Finding{f}, err
}

// addOldest adds the sessions with the oldest transactions to a finding.
func (x *examination) addOldest(ctx context.Context, f *Finding) error {
	type session struct {
		PID               int32
		Application, Role string
		State             string
		Age               float64
	}
	sessions, err := readRows[session](ctx, x, "oldest_transactions", nil, maxShown)
	for _, s := range sessions {
		f.Evidence = append(f.Evidence, evidence("pid", s.PID, "application", s.Application, "role", s.Role, "state",
			s.State, "age_seconds", seconds(s.Age)))
	}
	if len(sessions) > 0 {
		f.Remedy.Do += " End the oldest:"
		f.Remedy.SQL = []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", sessions[0].PID)}
	}
	return err
}

// A lockWait is a session that waits, and a session that it waits for.
type lockWait struct {
	PID                        int32
	Application, Query, Waited string
	Seconds                    float64
	Holder                     int32
	HolderApplication          string
	HolderRole, HolderState    string
	HolderQuery                string
	HolderSeconds              *float64
	Waiters                    int64 // how many sessions wait
}

// maxWaits is how many waits are read.
const maxWaits = 100

func lockWaits(ctx context.Context, x *examination) (all []Finding, err error) {
	list, err := readRows[lockWait](ctx, x, "waits", nil, x.Schema, x.Thresholds.LockWait.Seconds(), maxWaits,
		maxListed)
	if len(list) > 0 && (len(list) >= maxWaits || list[0].Waiters >= maxListed) {
		x.skip(ctx, x.current.code, "", upTo(maxListed, "sessions that wait for a lock"))
	}
	by := map[int32]int{} // index of the finding about a holder
	for _, w := range list {
		i, known := by[w.Holder]
		if !known {
			held := ""
			if w.HolderSeconds != nil {
				held = ", in a transaction of " + rough(seconds(*w.HolderSeconds))
			}
			f := Finding{
				Title: fmt.Sprintf("session %d (%s) holds a lock%s that others have waited for up to %s", w.Holder,
					orUnknown(w.HolderApplication, w.HolderRole), held, rough(seconds(w.Seconds))),
				Evidence: []Evidence{evidence("holder_pid", w.Holder, "application", w.HolderApplication, "role",
					w.HolderRole, "state", w.HolderState, "query", oneLine(w.HolderQuery))},
				Remedy: Remedy{Do: "Let its program end the transaction, or end the session.",
					SQL: []string{fmt.Sprintf("SELECT pg_terminate_backend(%d);", w.Holder)}},
			}
			i = len(all)
			by[w.Holder] = i
			all = append(all, f)
		}
		if len(all[i].Evidence) <= maxShown {
			all[i].Evidence = append(all[i].Evidence, evidence("waiting_pid", w.PID, "application", w.Application,
				"for", w.Waited, "waits_seconds", seconds(w.Seconds), "query", oneLine(w.Query)))
		}
	}
	return all, err
}

// oneLine puts a statement on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
