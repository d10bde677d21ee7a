package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// routeRules adds the actions on queues, topics and schedules.
func (h *handler) routeRules() {
	h.change("/queues/{verb}", changeQueue)
	h.change("/topics/{verb}", changeTopic)
	h.change("/schedules/{verb}", changeSchedule)
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
	if _, _, err := r.tableNamed(ctx, "jobs"); err != nil {
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
	return r.rule(ctx, operate.Act{Verb: verb, Target: "jobs", About: about}, "queues", change)
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
	t, _, err := r.tableNamed(ctx, r.field("table"))
	if err != nil {
		return view{}, err
	}
	name := t.Spec().Table
	about := map[string]string{"topic": r.form.Get("topic")}
	args, places := []any{about["topic"]}, "$1"
	if consumer := r.form.Get("consumer"); consumer != "" {
		about["consumer"] = consumer
		args, places = []any{consumer, about["topic"]}, "$1, $2"
	}
	function := pgx.Identifier{r.handler.Schema, name + "_" + verb}.Sanitize()
	return r.rule(ctx, operate.Act{Verb: verb, Target: name, About: about}, "queues", func(tx workqueue.Tx) error {
		_, err := tx.Exec(ctx, "SELECT "+function+"("+places+")", args...)
		return err
	})
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
	changes, err := r.schedule(ctx, table, name)
	if err != nil {
		return view{}, err
	}
	change := changes[verb]
	if change == nil {
		return view{}, notFound
	}
	act := operate.Act{Verb: verb, Target: table, About: map[string]string{"schedule": name}}
	return r.rule(ctx, act, "schedules", change)
}

// schedule returns what can be done to a schedule of a table; nothing if the table holds none of jobs or timers.
func (r *request) schedule(ctx context.Context, table, name string) (map[string]func(workqueue.Tx) error, error) {
	type changes interface {
		Pause(ctx context.Context, tx workqueue.Tx, name string) error
		Resume(ctx context.Context, tx workqueue.Tx, name string) error
	}
	var of changes
	var trigger func(workqueue.Tx) error
	switch table {
	case "jobs_schedule":
		c, err := jobs.Open(jobs.Options{Schema: r.handler.Schema})
		if err != nil {
			return nil, err
		}
		of, trigger = c.Schedules(), func(tx workqueue.Tx) error {
			_, err := c.Schedules().Trigger(ctx, tx, name)
			return err
		}
	case "timers_schedule":
		t, err := timers.Open(timers.Options{Schema: r.handler.Schema})
		if err != nil {
			return nil, err
		}
		of, trigger = t.Schedules(), func(tx workqueue.Tx) error {
			_, err := t.Schedules().Trigger(ctx, tx, name)
			return err
		}
	default:
		return nil, nil
	}
	return map[string]func(workqueue.Tx) error{
		"pause":   func(tx workqueue.Tx) error { return of.Pause(ctx, tx, name) },
		"resume":  func(tx workqueue.Tx) error { return of.Resume(ctx, tx, name) },
		"trigger": trigger,
	}, nil
}

// rule carries out a change of one rule and records it, and leads back to the page that shows it.
func (r *request) rule(ctx context.Context, act operate.Act, to string, change func(workqueue.Tx) error) (view, error) {
	db := r.acting()
	err := db.Act(ctx, act, func(tx workqueue.Tx) (int, error) { return 1, change(tx) })
	r.handler.figures.forget()
	return view{to: to}, refused(err)
}
