package main

// equivalents are left out: taking them away changes no outcome.
var equivalents = []equivalent{
	{"workqueue/sql/claim.sql", "(r.due_at, r.id) > (@after_due::timestamptz, @after_id::uuid)",
		"the cursor only spares reading what was claimed before: status = 0 leaves that out anyway"},
}
