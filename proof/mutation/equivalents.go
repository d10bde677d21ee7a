package mutation

const (
	// checked is for conditions that follow from the state_check of every table: exactly the rows in progress have a
	// locked_until, and none of them is waiting; exactly the rows that ended have a completed_at.
	checked = "follows from the table's CHECK: it leads to the index"
	either  = "the status is compared before and after the lock, and one comparison suffices; an edit removes both"
	null    = "the other condition compares the column too, and excludes NULL: this one only leads to the index"
	nothing = "without it the trigger is called for unrelated rows, and does nothing"
	twice   = "the called function checks the same itself"
	vain    = "without it a fold examines keys in which there is nothing to do"
	behind  = "a place further behind than necessary is just as good: later rows find theirs in the same way"
	spares  = "without it the statements that follow run and do nothing"
	silence = "without it a notification is sent that announces nothing"
	nobody  = "no row has the id NULL"
	again   = "without it a join is noted and examined once more without effect: no note is written if none is over"
	same    = "without it rows are rewritten unchanged"
	claimed = "a row in progress was due when it was claimed, and the core never moves its due time: this bounds the scan"
)

// equivalents are guards that are left out, because removing them changes no outcome.
var equivalents = []equivalent{
	{"workqueue/sql/extend.sql", "coalesce(t.status = 1, false)", either},
	{"workqueue/sql/extend.sql", "coalesce(r.status = 1, false)", either},
	{"workqueue/sql/reap_expired.sql", "NOT r.waiting", checked},
	{"workqueue/sql/reap_expired.sql", "r.status = 1", checked + ", where the condition on the lease implies it"},
	{"workqueue/sql/reap_expired.sql", "r.due_at <= now()", claimed},
	{"workqueue/sql/next_wake.sql", "NOT r.waiting (2)", checked},
	{"workqueue/sql/next_wake.sql", "r.status = 1", checked + ", and min ignores NULL"},
	{"workqueue/sql/next_wake.sql", "r.due_at <= now()", claimed},
	{"workqueue/sql/purge_done.sql", "r.completed_at IS NOT NULL", null},
	{"workqueue/sql/purge_failed.sql", "r.failed_at IS NOT NULL", null},
	{"workqueue/join/sql/schema/purge.sql", "j.completed_at IS NOT NULL", null},
	{"workqueue/join/sql/schema/strand.sql", "{{.Stranded}} (2)",
		"it could only matter if a join of a row that has waited for a quarter of an hour were started between the " +
			"statement's snapshot and its lock"},
	{"inbox/sql/strip.sql", "r.completed_at IS NOT NULL", null},
	{"workqueue/keyed/sql/keyed.up.sql", `{{.OrderedWaits "t"}}`, behind},
	{"workqueue/keyed/sql/keyed.up.sql", `{{.Obstacle "t"}}`, behind},
	{"workqueue/keyed/sql/keyed.up.sql", "t.key_seq >= next (3)",
		"the maximum is used: this spares reading dead letters whose number the sequence has already passed"},
	{"workqueue/keyed/sql/keyed.up.sql", "g.limited",
		"the entry for the key's ordered rows comes last, and has neither a number of rows nor a time"},
	{"workqueue/keyed/sql/keyed.up.sql", "g.limited (2)",
		"no two entries of a key have the same number: this only leads to the primary key"},
	{"workqueue/keyed/sql/keyed.up.sql", "g.n = d.n",
		"only the last of a key's entries counts, whatever the others contain"},
	{"workqueue/keyed/sql/keyed.up.sql", "d.updates < {{.MaxUpdates}}",
		"PostgreSQL happens to delete that row first, so nothing is left to update"},
	{"workqueue/keyed/sql/keyed.up.sql", "o.limited = r.limited",
		"without it the two entries of a key with both sorts of rows are deleted one after the other"},
	{"workqueue/keyed/sql/keyed.up.sql", "p.ended > 0", "the other rows add nothing: this only leads to the index"},
	{"workqueue/keyed/sql/keyed.up.sql", "l.locktype = 'advisory'",
		"a transaction's other locks are few compared with a quarter of the server's lock table"},
	{"workqueue/keyed/sql/keyed.up.sql", "fronts <> '{}'", silence},
	{"workqueue/keyed/sql/keyed.up.sql", "w.key_seq = h.key_seq",
		"it could only matter if the row changed its key between the fold's snapshot and its lock"},
	{"workqueue/keyed/sql/keyed.up.sql", "t.key_seq IS NULL",
		"the trigger's WHEN has checked it in this statement, and nothing else sets key_seq of an existing row"},
	{"workqueue/keyed/sql/keyed.up.sql", "t.status = 0 (2)",
		"the trigger's WHEN has checked it in this statement; if another trigger has ended the row since, waiting has " +
			"no effect, and a redrive sets it again"},
	{"workqueue/keyed/sql/keyed.up.sql", "r.at >= greatest(since, upto)",
		"it spares reading notes that are deleted but not vacuumed: earlier notes have been applied, and a pass from the " +
			"start finds the others"},
	{"workqueue/keyed/sql/keyed.up.sql", "NOT m.limited", "a limited key has no ordered rows that could be found"},
	{"workqueue/keyed/sql/keyed.up.sql", `{{.OrderedWaits "t"}} (2)`, vain},
	{"workqueue/keyed/sql/keyed.up.sql",
		`EXISTS (SELECT FROM {{.Table}} AS t WHERE t.concurrency_key = k AND {{.OrderedWaits "t"}})`, vain},
	{"workqueue/keyed/sql/keyed.up.sql",
		`NOT EXISTS (SELECT FROM {{.Table}} AS t WHERE ordered AND t.concurrency_key = last AND {{.Live "t"}} AND t.key_limit = 0)`, vain},
	{"workqueue/keyed/sql/keyed.up.sql", "NEW.status = 0", twice + ", and " + vain},
	{"workqueue/keyed/sql/keyed.up.sql", "OLD.status = 1",
		"a redriven row is already waiting, and key_note does the rest; nothing else makes a row Ready"},
	{"workqueue/keyed/sql/keyed.up.sql", "NEW.status = 0 (2)", twice + ", and " + vain},
	{"workqueue/keyed/sql/keyed.up.sql", "(OLD.failed_at IS NOT NULL OR OLD.completed_at IS NULL)", vain},
	{"workqueue/join/sql/add.sql", "j.status = 0",
		"lock_join.sql has locked the join in this transaction and found it pending"},
	{"timers/sql/table.sql", "OLD.status = 1",
		"follows from timers_rearm_check: only a firing timer has a rearm_at"},
	{"timers/sql/table.sql", "OLD.rearm_at IS NOT NULL (2)", nothing},
	{"jobs/sql/schema/forget.sql", "OLD.trail IS NOT NULL OR OLD.attempts > 1 OR OLD.failed_at IS NOT NULL OR " +
		"OLD.headers ->> 'txwork-redriven-at' IS NOT NULL", nothing},
	{"jobs/sql/schema/slot.sql", "OLD.slot", nothing},
	{"jobs/sql/schema/slot.sql", "OLD.status = 1", nothing + ": only a job in progress has a slot"},
	{"jobs/sql/schema/slot.sql", "OLD.slot (2)", nothing},
	{"jobs/sql/schema/slot.sql", "OLD.status = 1 (2)", nothing + ": only a job in progress has a slot"},
	{"jobs/sql/schema/slot_sweep.sql", "NOT r.waiting", checked},
	{"jobs/sql/schema/slot_sweep.sql", "given > 0", silence},
	{"workqueue/join/sql/schema/end.sql", "targets IS NULL", spares},
	{"workqueue/join/sql/schema/end.sql", "j.status = 0", "the caller has locked the join and found it pending"},
	{"workqueue/join/sql/schema/end.sql", `($2 IS NOT NULL OR {{.Over "j"}})`,
		"finish.sql has locked the join and found it over, and a cancel has a verdict"},
	{"workqueue/join/sql/schema/end.sql", "e.on_complete IS NOT NULL", nobody},
	{"workqueue/join/sql/schema/end.sql", "e.on_fail IS NOT NULL", nobody},
	{"workqueue/join/sql/schema/end.sql", "released > 0", silence},
	{"workqueue/join/sql/schema/finish.sql", "j.status = 0", twice},
	{"workqueue/join/sql/schema/finish.sql", `{{.Over "j"}}`, twice},
	{"workqueue/join/sql/schema/finish.sql", "held IS NOT NULL", spares},
	{"workqueue/join/sql/schema/finish.sql", "cardinality($1) > {{.MaxEnds}}", again},
	{"workqueue/join/sql/schema/finish.sql", "j.status = 0 (2)", again},
	{"workqueue/join/sql/schema/finish.sql",
		`{{.Over "j"}} EXCEPT SELECT u.id FROM unnest(free || held) AS u (id)`, again},
	{"workqueue/join/sql/schema/apply.sql", "m.ctid NOT IN (SELECT p.place FROM unnest(places) AS p (place))",
		"without it a member that is noted twice is examined twice, but still counted once"},
	{"workqueue/join/sql/schema/apply.sql",
		"(n.outcome, n.late) IS DISTINCT FROM (n.outcome_before, n.late_before)", same},
	{"workqueue/join/sql/schema/apply.sql", "(s.succeeded <> 0 OR s.failed <> 0 OR s.late <> 0)", same},
	{"workqueue/join/sql/schema/note.sql", "(OLD.completed_at IS NULL) <> (NEW.completed_at IS NULL)",
		"without it a note is written, and the fold finds that the row was counted correctly"},
	{"workqueue/join/sql/mark.sql", "t.joined IS NOT TRUE",
		"mark.sql gets only rows that lock.sql has locked in this transaction and found without the mark"},
	{"workqueue/join/sql/schema/note.sql", "NEW.joined", nothing},
	{"workqueue/join/sql/schema/note.sql", "OLD.joined", nothing},
	{"workqueue/join/sql/schema/end.sql", "c.state = 2",
		"it matters only if Done rows are deleted: then no other continuation can be Done, and t.status = 2 implies it"},
	{"timers/alarms/sql/find.sql", "a.idempotency_key <> ''",
		"nobody searches for an empty key: this only leads to the index, which has no empty keys"},
	{"timers/alarms/sql/revoked.sql", "a.status = 'active'",
		"stranded.sql has locked the alarm in this transaction and found it active"},
	{"timers/alarms/sql/stranded.sql", "(t.id IS NULL OR t.completed_at IS NOT NULL)",
		"hold_stranded.sql checks each alarm again, and leaves one alone whose timer will fire"},
}
