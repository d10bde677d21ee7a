package main

const (
	// checked is what the state_check of every table says: exactly rows in progress have a locked_until, and none
	// of them waits; exactly rows that ended have a completed_at.
	checked = "follows from the table's CHECK: it leads to the index"
	either  = "the status is compared twice, before and after the lock, and either will do; an edit takes both"
	null    = "a comparison with NULL is no more true: it leads to the index"
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
	{"inbox/sql/strip.sql", "r.completed_at IS NOT NULL", null},
}
