package migrations

import (
	"fmt"
	"slices"
)

// A unit is a table with all objects that belong to it and need rights.
type unit struct {
	Title     string
	Table     string
	Tables    []string
	Sequences []string
	Calls     []string // functions that a role calls, itself or through a trigger's function
	triggers  []string // functions that only triggers run, or the owner
	Seen      []string // functions that policies call, or everybody
	Operated  []string // functions that operators call, beside the worker
	Writers   []string // names of functions that write rows, see workqueue.Writer, and of those that they call
	Several   []string // functions of workers, of which a name has several signatures
	ReadOnly  bool     // only the owner may write it
	Operators bool     // workers have no rights on it
	producer  []string // files of roles/producer
	core      bool     // it instantiates package workqueue
	Schedule  bool     // it is one of package periodic
	Keyed     bool     // it has the objects of package keyed
	Topics    bool     // its rows have topics, see workqueue.Topics
}

// CoreTables returns the tables that the migrations create and that instantiate package workqueue. Roles,
// [Migrator.Up], `txwork doctor` and the command line know the tables that are listed here.
func CoreTables() (names []string) {
	for _, u := range migratedUnits() {
		if u.core {
			names = append(names, u.Table)
		}
	}
	return names
}

// domainTables returns the main tables of the domains.
func domainTables() (names []string) {
	for _, u := range migratedUnits() {
		if slices.Contains(Domains(), domainOf(u.Table)) {
			names = append(names, u.Table)
		}
	}
	return names
}

// unitView is a unit as the templates see it.
type unitView struct {
	rolePrinter
	unit
}

// A grantView is functions that are granted by their names.
type grantView struct {
	rolePrinter
	Functions []string
	To        string
}

func (v unitView) GrantWriters() grantView {
	return grantView{v.rolePrinter, v.Writers, v.Role("producer") + ", " + v.Role("worker")}
}

func (v unitView) GrantSeveral() grantView {
	return grantView{v.rolePrinter, v.Several, v.Role("worker")}
}

// GrantOperated is for Operated.
func (v unitView) GrantOperated() grantView {
	return grantView{v.rolePrinter, v.Operated, v.Role("worker") + ", " + v.Role("operator")}
}

// Functions hides rolePrinter.Functions, which lists those of all units.
func (v unitView) Functions() []string { return v.unit.Functions() }

// Tables hides RoleOptions.Tables.
func (v unitView) Tables() []string { return v.unit.Tables }

// Ruled are the tables in which operators pause and limit what rows have in common.
func (u unit) Ruled() []string {
	return slices.DeleteFunc(slices.Clone(u.Tables), func(table string) bool {
		return table != u.Table+"_topic" && table != u.Table+"_queue"
	})
}

func (u unit) Functions() []string { return slices.Concat(u.Calls, u.triggers, u.Seen) }

func (u unit) operated(suffixes ...string) unit {
	u.Operated = append(u.Operated, u.named(suffixes)...)
	return u
}

// migratedUnits returns the units that the migrations create. Producers get no rights on the tables of schedules,
// because workers carry out what a schedule says.
func migratedUnits() []unit {
	return []unit{
		core("outbox").withTopics().withKeys().withJoin().enqueued().writtenBy("enqueue", "start_join"),
		core("inbox").withTopics().calls("begin", "strip").enqueued("inbox").writtenBy("receive"),
		core("timers").runs("rearm", "disarm").sees("get").enqueued("timers").writtenBy("set"),
		core("timers_schedule").scheduled(),
		{Title: "alarms", Table: "alarms", Tables: []string{"alarms"}, producer: []string{"alarms"}},
		core("jobs").withKeys().withJoin().
			with("attempt", "step", "queue", "start", "slot").
			calls("claim_admitted", "admit", "spans", "starts", "permit", "take", "give_start", "slot_sweep",
				"chain_key", "steps", "progress").
			operated("pause", "resume", "limit").
			several("put_step", "output").
			runs("free_key", "check_key", "record", "forget", "give_slot", "policies").enqueued("jobs").
			writtenBy("enqueue", "unique_hash", "start_batch"),
		core("jobs_schedule").scheduled(),
		logUnit(), logPositions(), core(logTable+"_parked").withKeys().calls("trim", "retain"),
		{Title: "leader: which reaper leads", Table: "leader", Tables: []string{"leader"},
			Calls: []string{"leader_note"}},
		{Title: "history: what happened, by minutes and hours", Table: "history",
			Tables: []string{"history", "history_flush", "history_keep"}, Calls: []string{"history_merge"}},
		{Title: "process: which processes run, and which protocol they speak", Table: "process",
			Tables: []string{"process"}, Calls: []string{"owner_token", "process_beat"},
			Seen: []string{"protocol", "require"}},
		{Title: "audit: what operators did", Table: "audit", Tables: []string{"audit"},
			Sequences: []string{"audit_id_seq"}, triggers: []string{"audit_trim"}, Operators: true,
			producer: []string{"audit"}},
		{Title: "audit_keep: how long the audit is kept", Table: "audit_keep", Tables: []string{"audit_keep"},
			ReadOnly: true},
		{Title: "schema_version, schema_domain: which migrations there are", Table: "schema_version",
			Tables: []string{"schema_version", "schema_domain"}, Sequences: []string{"schema_version_id_seq"},
			ReadOnly: true},
	}
}

// logUnit is the messages of an outbox that is a log. Nobody changes a message that is there, and only the owner
// removes any.
func logUnit() unit {
	u := unit{Title: logTable + ": an outbox that is a log", Table: logTable, Tables: []string{logTable},
		Sequences: []string{logTable + "_seq"}, ReadOnly: true, producer: []string{"log"}}
	for n := range 8 {
		u = u.with(fmt.Sprint(n))
	}
	u = u.with("dedup", "later")
	u.Writers = u.named([]string{"append", "turn", "storage"})
	return u.runs("guard", "shift", "trim", "trim_slot", "trim_dedup", "least", "outlived", "thin", "rebase",
		"rows_moved", "dedup_moved", "take_over", "move_rows", "moved_back", "dedup_back", "give_back")
}

// logPositions is the state of the log's subscriptions.
func logPositions() unit {
	u := unit{Title: logTable + "_position: subscriptions of the log", Table: logTable,
		producer: []string{"subscriptions"}}
	u = u.with("position", "subscription", "tick", "state", "loss").
		calls("tick", "tick_step", "append_due", "fetch", "settle", "extend", "release", "unavailable").
		sees("lag", "moving", "move_hindrance", "back_hindrance").
		operated("subscribe", "change", "pause", "resume", "replay", "cut", "move", "unsubscribe", "cancel")
	u.Table = logTable + "_position"
	return u
}

func (t RoleTable) unit() unit {
	u := core(t.Name)
	if t.Topics {
		u = u.withTopics()
	}
	if t.Keyed {
		u = u.withKeys()
	}
	if t.Join {
		u = u.withJoin()
	}
	if u = u.enqueued(); t.Join {
		u = u.writtenBy("enqueue", "start_join")
	}
	return u
}

// core returns the unit of a table with the objects that every core table has.
func core(table string) unit {
	u := unit{Title: table, Table: table, Tables: []string{table}, core: true}
	return u.calls("fetch", "settle_rows", "settle", "ack", "retry", "snooze", "wait_until", "release", "fail",
		"extend", "reap_expired", "purge", "fold_step", "fold", "each", "maintain_step", "maintain").runs("announce").
		several("complete").sees("stats").
		operated("run_now", "reschedule", "redrive", "cancel", "discard", "delete")
}

func (u unit) scheduled() unit {
	u.Schedule = true
	return u.operated("pause", "resume", "trigger")
}

func (u unit) withTopics() unit {
	u.Topics = true
	return u.with("topic").calls("claim_by_topic").operated("pause", "resume").sees("topics").
		runs("topic_changed", "topic_policies")
}

func (u unit) withKeys() unit {
	u.Keyed, u.Sequences = true, append(u.Sequences, u.Table+"_key_seq")
	return u.with("key_note", "key_state", "key_cursor").
		calls("key_place", "key_fold", "key_next", "key_fill", "key_park", "key_sweep", "key_look").
		runs("key_enter", "key_come", "key_back", "key_wait", "key_note", "key_move", "key_forget", "key_policies").
		operated("unblock")
}

func (u unit) withJoin() unit {
	u.producer = append(u.producer, "join")
	return u.with("join", "join_member", "join_note", "join_cursor").
		calls("join_fold", "join_apply", "join_recount", "join_finish", "join_end", "join_forget", "join_purge",
			"join_strand", "join_sweep").
		runs("join_settled", "join_policies").sees("join_row")
}

// enqueued gives producers their rights: those on the core, and those that the domain needs in addition.
func (u unit) enqueued(domain ...string) unit {
	u.producer = append(append([]string{"core"}, u.producer...), domain...)
	return u.writtenBy("enqueue")
}

func (u unit) writtenBy(suffix string, calls ...string) unit {
	u.Writers = u.named(append([]string{suffix, suffix + "_many"}, calls...))
	return u
}

func (u unit) several(suffixes ...string) unit {
	u.Several = append(u.Several, u.named(suffixes)...)
	return u
}

func (u unit) with(suffixes ...string) unit {
	u.Tables = append(u.Tables, u.named(suffixes)...)
	return u
}

func (u unit) calls(suffixes ...string) unit {
	u.Calls = append(u.Calls, u.named(suffixes)...)
	return u
}

func (u unit) runs(suffixes ...string) unit {
	u.triggers = append(u.triggers, u.named(suffixes)...)
	return u
}

func (u unit) sees(suffixes ...string) unit {
	u.Seen = append(u.Seen, u.named(suffixes)...)
	return u
}

// named returns names that are derived from the table's.
func (u unit) named(suffixes []string) []string {
	names := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		names[i] = u.Table + "_" + suffix
	}
	return names
}
