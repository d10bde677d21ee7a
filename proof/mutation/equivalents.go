package mutation

const (
	// checked is what the state_check of every table says: exactly rows in progress have a locked_until, and none
	// of them waits; exactly rows that ended have a completed_at.
	checked = "follows from the table's CHECK: it leads to the index"
	either  = "the status is compared twice, before and after the lock, and either will do; an edit takes both"
	null    = "a comparison with NULL is no more true: it leads to the index"
	nothing = "the trigger finds nothing to do without it: it spares rows that have nothing to do with it the call"
	twice   = "the function that is called looks at it itself"
	vain    = "folders then look at keys in which there is nothing to do, in vain"
	behind  = "a place that is further behind than it need be is as good: the rows that follow look for theirs in " +
		"the same way"
	spares  = "what follows does nothing then: it spares that"
	silence = "it spares a notification of nothing"
	nobody  = "no row has the id NULL"
	again   = "a join that is noted in vain is looked at once more, in vain: where none is over no note is written"
	same    = "it spares writing rows that stay as they are"
	claimed = "a row in progress was due when it was claimed, and the core never moves its due time: it bounds the scan"
)

// equivalents are left out: taking them away changes no outcome.
var equivalents = []equivalent{
	{"workqueue/sql/claim.sql", "(r.due_at, r.id) > (l.after_due, l.after_id)",
		"the cursor only spares reading what was claimed before: status = 0 leaves that out anyway"},
	{"workqueue/sql/extend.sql", "t.status = 1", either},
	{"workqueue/sql/extend.sql", "coalesce(r.status = 1, false)", either},
	{"workqueue/sql/reap_expired.sql", "NOT r.waiting", checked},
	{"workqueue/sql/reap_expired.sql", "r.status = 1", checked + ", where the end of the lease says the same"},
	{"workqueue/sql/reap_expired.sql", "r.due_at <= now()", claimed},
	{"workqueue/sql/next_wake.sql", "NOT r.waiting (2)", checked},
	{"workqueue/sql/next_wake.sql", "r.status = 1", checked + ", and min leaves NULL out"},
	{"workqueue/sql/next_wake.sql", "r.due_at <= now()", claimed},
	{"workqueue/sql/purge_done.sql", "r.completed_at IS NOT NULL", null},
	{"workqueue/sql/purge_failed.sql", "r.failed_at IS NOT NULL", null},
	{"workqueue/join/sql/schema/purge.sql", "j.completed_at IS NOT NULL", null},
	{"workqueue/join/sql/schema/strand.sql", "{{.Stranded}} (2)",
		"a join of a row that has waited for a quarter of an hour would have to be started between the statement's " +
			"snapshot and its lock"},
	{"inbox/sql/strip.sql", "r.completed_at IS NOT NULL", null},
	{"workqueue/keyed/sql/keyed.up.sql", `{{.OrderedWaits "t"}}`, behind},
	{"workqueue/keyed/sql/keyed.up.sql", `{{.Obstacle "t"}}`, behind},
	{"workqueue/keyed/sql/keyed.up.sql", "t.key_seq >= next (3)",
		"the greatest of all is taken: it spares reading dead letters that are behind the sequence"},
	{"workqueue/keyed/sql/keyed.up.sql", "g.limited",
		"what is known of the key's ordered rows comes last, and has neither a number of rows nor a time"},
	{"workqueue/keyed/sql/keyed.up.sql", "g.limited (2)",
		"no two rows of what is known of a key have one number: it leads to the primary key"},
	{"workqueue/keyed/sql/keyed.up.sql", "g.n = d.n",
		"of the rows that are known of a key the last one counts, whatever the others say"},
	{"workqueue/keyed/sql/keyed.up.sql", "d.updates < {{.MaxUpdates}}",
		"the deletion of that row comes first, as PostgreSQL happens to do it: nothing is left to be updated"},
	{"workqueue/keyed/sql/keyed.up.sql", "o.limited = r.limited",
		"the two of a key with both sorts of rows are forgotten one after the other then"},
	{"workqueue/keyed/sql/keyed.up.sql", "p.ended > 0", "the others add nothing: it leads to the index"},
	{"workqueue/keyed/sql/keyed.up.sql", "l.locktype = 'advisory'",
		"the other locks of a transaction are few beside a quarter of what the server has room for"},
	{"workqueue/keyed/sql/keyed.up.sql", "fronts <> '{}'", silence},
	{"workqueue/keyed/sql/keyed.up.sql", "t.key_seq IS NULL",
		"the trigger's WHEN has said so of the row in this statement, and nothing else sets key_seq of a row that " +
			"is there"},
	{"workqueue/keyed/sql/keyed.up.sql", "t.status = 0 (2)",
		"the trigger's WHEN has said so of the row in this statement; had another trigger ended it since: whether a " +
			"row that ended waits decides nothing, and a redrive says it anew"},
	{"workqueue/keyed/sql/keyed.up.sql", "r.at >= greatest(since, upto)",
		"it spares reading notes that are deleted and not yet vacuumed: those before it have been taken, and a pass " +
			"from the start finds the others"},
	{"workqueue/keyed/sql/keyed.up.sql", "NOT m.limited", "a limited key has no ordered rows to be found"},
	{"workqueue/keyed/sql/keyed.up.sql", `{{.OrderedWaits "t"}} (2)`, vain},
	{"workqueue/keyed/sql/keyed.up.sql",
		`EXISTS (SELECT FROM {{.Table}} AS t WHERE t.concurrency_key = k AND {{.OrderedWaits "t"}})`, vain},
	{"workqueue/keyed/sql/keyed.up.sql",
		`NOT EXISTS (SELECT FROM {{.Table}} AS t WHERE ordered AND t.concurrency_key = last AND {{.Live "t"}} AND t.key_limit = 0)`, vain},
	{"workqueue/keyed/sql/keyed.up.sql", "NEW.status = 0", twice + ", and " + vain},
	{"workqueue/keyed/sql/keyed.up.sql", "OLD.status = 1",
		"a redriven row waits already, and key_note does the rest; nothing else makes a row Ready"},
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
	{"workqueue/join/sql/schema/end.sql", "j.status = 0", "whoever calls has locked the join and found it pending"},
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
		"a member that is noted twice is looked at twice, and counted once"},
	{"workqueue/join/sql/schema/apply.sql",
		"(n.outcome, n.late) IS DISTINCT FROM (n.outcome_before, n.late_before)", same},
	{"workqueue/join/sql/schema/apply.sql", "(s.succeeded <> 0 OR s.failed <> 0 OR s.late <> 0)", same},
	{"workqueue/join/sql/schema/note.sql", "(OLD.completed_at IS NULL) <> (NEW.completed_at IS NULL)",
		"a fold finds that such a row is as it was counted: it spares the note"},
	{"workqueue/join/sql/mark.sql", "t.joined IS NOT TRUE",
		"only rows are marked that lock.sql has locked in this transaction and found without the mark"},
	{"workqueue/join/sql/schema/note.sql", "NEW.joined", nothing},
	{"workqueue/join/sql/schema/note.sql", "OLD.joined", nothing},
	{"workqueue/join/sql/schema/end.sql", "c.state = 2",
		"only where Done rows are deleted: there no other continuation can be Done, and t.status = 2 says the same"},
	{"timers/alarms/sql/find.sql", "a.idempotency_key <> ''",
		"nobody looks for an empty key: it leads to the index, which holds no others"},
	{"timers/alarms/sql/revoked.sql", "a.status = 'active'",
		"stranded.sql has locked the alarm in this transaction and found it active"},
}
