package main

import (
	"slices"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A domain is what this command knows about a table that the migrations create.
type domain struct {
	spec func(schema string) workqueue.Spec
	// list names the columns that fit on a line. The show command prints all of them.
	list []string
}

// domains are the known tables by name. Of an application's own table only the core columns are known.
var domains = map[string]domain{
	"outbox":          {outbox.Spec, []string{"topic", "key", "dedup_key"}},
	"inbox":           {inbox.Spec, []string{"consumer", "source", "message_id", "topic"}},
	"timers":          {timers.Spec, []string{"key", "topic", "fire_at", "schedule"}},
	"timers_schedule": {schedules("timers_schedule"), []string{"name", "expr", "zone", "paused", "next_at"}},
	"jobs":            {jobs.Spec, []string{"kind", "queue", "priority", "unique_key", "schedule", "progress"}},
	"jobs_schedule":   {schedules("jobs_schedule"), []string{"name", "expr", "zone", "paused", "next_at"}},

	"outbox_log_parked": {outbox.ParkedSpec, []string{"subscription", "topic", "key"}},
}

// programs are the known tables of each domain. Those of alarms and of the reaper's election are not the core's.
func programs(schema string) map[migrations.Domain][]workqueue.Spec {
	all := map[migrations.Domain][]workqueue.Spec{}
	for table, d := range domains {
		name := migrations.Domain(postgres.DomainOf(table))
		all[name] = append(all[name], d.spec(schema))
	}
	return all
}

func schedules(table string) func(schema string) workqueue.Spec {
	return func(schema string) workqueue.Spec { return periodic.Spec(schema, table) }
}

// specOf returns the Spec of a table. For an application's own table it has only the name, which is enough for the
// operations of the core.
func specOf(schema, table string) workqueue.Spec {
	if d, ok := domains[table]; ok {
		return d.spec(schema)
	}
	return workqueue.Spec{Schema: schema, Table: table}
}

// listed returns the columns of a table that the list command shows.
func listed(table string, all []operate.Column) []operate.Column {
	d, ok := domains[table]
	if !ok {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c operate.Column) bool { return !slices.Contains(d.list, c.Name) })
}

// inner tells whether a column of one of our domains is left out while it is NULL, because only some uses set it.
func inner(table, column string) bool {
	d, ok := domains[table]
	return ok && !slices.Contains(d.list, column)
}
