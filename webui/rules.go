package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// routeRules adds the actions on queues, topics and schedules.
func (h *handler) routeRules() {
	h.change("/queues/{verb}", changeQueue)
	h.change("/topics/{verb}", changeTopic)
	h.change("/schedules/{verb}", changeSchedule)
	h.ask("/schedules/backfill", askBackfill)
	h.change("/schedules/backfill", backfill)
}

// refused makes a page of what the form asks and cannot be done.
func refused(err error) error {
	var invalid *workqueue.InvalidError
	switch {
	case errors.As(err, &invalid):
		return operate.Refusal{Field: invalid.Field, Problem: " " + invalid.Reason}
	case errors.Is(err, workqueue.ErrNotFound):
		return problem{status: http.StatusNotFound, Title: "It is not there", Advice: "Go on from the list.",
			Detail: "There is nothing of this name. It was deleted meanwhile, or the form was changed."}
	}
	return err
}

// changeQueue pauses, resumes or limits a queue of jobs.
func changeQueue(ctx context.Context, r *request) (view, error) {
	verb := r.PathValue("verb")
	if err := r.mayRule(ctx, "jobs", r.form.Get("queue")); err != nil {
		return view{}, err
	}
	client, err := jobs.Open(jobs.Options{Schema: r.handler.Schema})
	if err != nil {
		return view{}, err
	}
	about := struct {
		Queue      string  `json:"queue"`
		MaxRunning int     `json:"max_running,omitempty"`
		Rate       float64 `json:"rate,omitempty"`
		Burst      int     `json:"burst,omitempty"`
	}{Queue: r.form.Get("queue")}
	change := map[string]func(workqueue.Tx) error{
		"pause":  func(tx workqueue.Tx) error { return client.Pause(ctx, tx, about.Queue) },
		"resume": func(tx workqueue.Tx) error { return client.Resume(ctx, tx, about.Queue) },
		"limit": func(tx workqueue.Tx) error {
			return client.SetLimits(ctx, tx, about.Queue, jobs.Limits{MaxRunning: about.MaxRunning, Rate: about.Rate,
				Burst: about.Burst})
		},
	}[verb]
	if change == nil {
		return view{}, notFound
	}
	if verb == "limit" {
		var errs [3]error
		about.MaxRunning, errs[0] = number0(r, "max_running", strconv.Atoi)
		about.Rate, errs[1] = number0(r, "rate", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		about.Burst, errs[2] = number0(r, "burst", strconv.Atoi)
		if err := cmp.Or(errs[0], errs[1], errs[2]); err != nil {
			return view{}, err
		}
	}
	return r.rule(ctx, operate.Act{Verb: verb, Target: "jobs", About: about}, "queues", changed(change))
}

// mayRule refuses a change of the rules of a part of a table that the user does not see.
func (r *request) mayRule(ctx context.Context, table, part string) error {
	_, _, err := r.rowsOf(ctx, table)
	if among := r.among(table); err == nil && among != nil && !has(among, part) {
		err = problem{status: http.StatusNotFound, Title: "It is not there", Advice: "Go on from the list.",
			Detail: "There is nothing of this name that you may see. Nothing was changed."}
	}
	return err
}

// number0 is a number of the form; 0 if it is empty.
func number0[T any](r *request, name string, parse func(string) (T, error)) (n T, err error) {
	text := r.field(name)
	if text == "" {
		return n, nil
	}
	if n, err = parse(text); err != nil {
		err = operate.Refusal{Field: name, Problem: " is no number, or too large"}
	}
	return n, err
}

// changeTopic pauses or resumes a topic, by the function of its table.
func changeTopic(ctx context.Context, r *request) (view, error) {
	verb := r.PathValue("verb")
	if verb != "pause" && verb != "resume" {
		return view{}, notFound
	}
	t, _, err := r.rowsOf(ctx, r.field("table"))
	if err != nil {
		return view{}, err
	}
	name := t.Spec().Table
	facts, err := r.handler.facts(ctx, name)
	if err != nil {
		return view{}, err
	}
	if len(facts) == 0 || !facts[0].Has("aside") {
		return view{}, operate.Refusal{Field: "table", Problem: ": " + name + " has no topics that can be paused"}
	}
	about := map[string]string{"topic": r.form.Get("topic")}
	part := map[string]string{"topic": about["topic"], "consumer": r.form.Get("consumer")}[dividedBy(&facts[0])]
	if err := r.mayRule(ctx, name, part); err != nil {
		return view{}, err
	}
	args, places := []any{about["topic"]}, "$1"
	if facts[0].Has("consumer") {
		consumer := r.form.Get("consumer")
		if consumer == "" {
			return view{}, operate.Refusal{Field: "consumer", Problem: " is missing: each has topics of its own"}
		}
		about["consumer"] = consumer
		args, places = []any{consumer, about["topic"]}, "$1, $2"
	}
	function := pgx.Identifier{r.handler.Schema, name + "_" + verb}.Sanitize()
	act := operate.Act{Verb: verb, Target: name, About: about}
	return r.rule(ctx, act, "queues", changed(func(tx workqueue.Tx) error {
		_, err := tx.Exec(ctx, "SELECT "+function+"("+places+")", args...)
		return err
	}))
}

// changeSchedule pauses, resumes or triggers a schedule.
func changeSchedule(ctx context.Context, r *request) (view, error) {
	table, verb, name := r.field("table"), r.PathValue("verb"), r.form.Get("schedule")
	if _, _, err := r.tableNamed(ctx, table); err != nil {
		return view{}, err
	}
	if verb == "trigger" {
		if _, _, err := r.tableNamed(ctx, rowsOf(table)); err != nil {
			return view{}, err
		}
	}
	of, err := r.schedulesOf(table)
	if err != nil {
		return view{}, err
	}
	change := map[string]func(workqueue.Tx) error{
		"pause":   func(tx workqueue.Tx) error { return of.Pause(ctx, tx, name) },
		"resume":  func(tx workqueue.Tx) error { return of.Resume(ctx, tx, name) },
		"trigger": func(tx workqueue.Tx) error { return r.trigger(ctx, tx, table, name) },
	}[verb]
	if change == nil {
		return view{}, notFound
	}
	act := operate.Act{Verb: verb, Target: table, About: operate.AboutSchedule{Schedule: name}}
	return r.rule(ctx, act, "schedules", changed(change))
}

// schedulesOf are the schedules of a table.
type schedulesOf interface {
	Pause(ctx context.Context, tx workqueue.Tx, name string) error
	Resume(ctx context.Context, tx workqueue.Tx, name string) error
	Backfill(ctx context.Context, tx workqueue.Tx, name string, from, to time.Time) (int, error)
	PreviewBackfill(ctx context.Context, tx workqueue.Tx, name string, from, to time.Time) ([]periodic.Occurrence,
		error)
}

// schedulesOf returns the schedules of a table, which has those of jobs or of timers.
func (r *request) schedulesOf(table string) (schedulesOf, error) {
	switch table {
	case "jobs_schedule":
		c, err := jobs.Open(jobs.Options{Schema: r.handler.Schema})
		if err != nil {
			return nil, err
		}
		return c.Schedules(), nil
	case "timers_schedule":
		t, err := timers.Open(timers.Options{Schema: r.handler.Schema})
		if err != nil {
			return nil, err
		}
		return t.Schedules(), nil
	}
	return nil, notFound
}

// trigger asks the schedulers for an occurrence. The function is an operator's, who may not write rows.
func (r *request) trigger(ctx context.Context, tx workqueue.Tx, table, name string) error {
	query := "SELECT result FROM " + pgx.Identifier{r.handler.Schema, table + "_trigger"}.Sanitize() + "($1)"
	var result string
	err := tx.Query(ctx, func(scan func(...any) error) error { return scan(&result) }, query, name)
	switch {
	case err == nil && result == "gone":
		return workqueue.ErrNotFound
	case err == nil && result != "triggered":
		return problem{status: http.StatusConflict, Title: "The schedule was not triggered",
			Detail: "Its state is " + result + ": it has no occurrences any more, or too many wait for a scheduler. " +
				"Nothing was changed.", Advice: "Look at the schedule, and whether a process with a scheduler runs."}
	}
	return err
}

// changed makes a change of one rule say so.
func changed(change func(workqueue.Tx) error) func(workqueue.Tx) (int, error) {
	return func(tx workqueue.Tx) (int, error) { return 1, change(tx) }
}

// rule carries out a change of rules, which says how many rows it has changed, and records it. It leads back to the
// page that shows it.
func (r *request) rule(ctx context.Context, act operate.Act, to string, change func(workqueue.Tx) (int, error)) (view,
	error) {
	db := r.acting()
	err := db.Act(ctx, act, change)
	r.handler.forget()
	return view{to: to}, refused(err)
}
