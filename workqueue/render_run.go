package workqueue

import (
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/keys"
)

// hasRuns says that rows of an ordered key can be claimed as runs, see package keyed. The rule of an admission counts
// what a claim takes, and a run is taken after it.
func (v view) hasRuns() bool {
	_, keyed := v.spec.column("key_seq")
	return keyed && v.HasPolicy() && v.Admission == ""
}

// Keys are the conditions of the rows of keys.
func (v view) Keys() keys.Rows { return keys.Rows{HasTopics: v.HasTopics()} }

// HidesRows is the condition that row-level security hides rows from the role.
func (v view) HidesRows() string { return sqltext.Hides(v.Table) }
