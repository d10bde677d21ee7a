package main

import (
	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// domains are the Specs of the tables that the migrations create, by name. Of an application's own table only the core
// columns are known.
var domains = map[string]func(schema string) workqueue.Spec{
	"outbox":          outbox.Spec,
	"inbox":           inbox.Spec,
	"timers":          timers.Spec,
	"timers_schedule": schedules("timers_schedule"),
	"jobs":            jobs.Spec,
	"jobs_schedule":   schedules("jobs_schedule"),

	"outbox_log_parked": outbox.ParkedSpec,
}

// programs are the known tables of each domain. Those of alarms and of the reaper's election are not the core's.
func programs(schema string) map[migrations.Domain][]workqueue.Spec {
	all := map[migrations.Domain][]workqueue.Spec{}
	for table, spec := range domains {
		name := migrations.Domain(postgres.DomainOf(table))
		all[name] = append(all[name], spec(schema))
	}
	return all
}

func schedules(table string) func(schema string) workqueue.Spec {
	return func(schema string) workqueue.Spec { return periodic.Spec(schema, table) }
}

// specOf returns the Spec of a table. For an application's own table it has only the name, which is enough for the
// operations of the core.
func specOf(schema, table string) workqueue.Spec {
	if spec, ok := domains[table]; ok {
		return spec(schema)
	}
	return workqueue.Spec{Schema: schema, Table: table}
}
