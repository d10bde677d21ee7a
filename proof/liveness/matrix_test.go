package liveness

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// full selects the full size, see doc.go.
var full = flag.Bool("full", false, "stop programs at every moment, and measure what bystanders get done")

// A holder takes something and keeps it until release is called. It may also start rows of its own that need what it
// holds, and whose workers must not hold up others.
type holder struct {
	name string
	hold func(w *world) (release func())
}

// known are cells that are known to fail, each with the number of the defect in the issue on liveness. "*" stands for
// all bystanders, of which at least one must still fail: a fixed cell has to be removed from the list.
var known = map[string]string{}

// shared are cells in which the bystander needs what the holder has, with the consequence.
var shared = map[string]string{
	"a row of leader/reaper":           "the row is the election of a table: nobody is elected, nobody waits",
	"jobs_key_fold/ordered keys":       folding,
	"jobs_key_fold/limited keys":       folding,
	"jobs_key_fold/same limited key":   folding,
	"jobs_join_fold/batches":           folding,
	"jobs_join_fold/workflows":         folding,
	"outbox_key_fold/ordered messages": folding,
	"jobs_key_fold/reaper":             reaping5s,
	"jobs_join_fold/reaper":            reaping5s,
	"outbox_key_fold/reaper":           reaping5s,
	"outbox_join_fold/reaper":          reaping5s,
}

// folding is why keys and joins wait for a fold that stands still.
const folding = "one session folds at a time: what it has taken, and what comes after it, waits until its session ends"

// reaping5s is how a reaper is affected by such a fold.
const reaping5s = "it folds, too, and waits five seconds for whoever is at it before it goes on with the next table"

// knownPatience is how long a cell may take that is known to fail.
const knownPatience = 1500 * time.Millisecond

// beside runs the bystanders while the holder holds, and checks that everything ends once it lets go.
func (w *world) beside(t *testing.T, h holder, turn int) {
	t.Helper()
	w = w.on(t)
	release := h.hold(w)
	c := cells{holder: h.name}
	w.beginAll(&c, h.name, turn, nil, nil)
	c.judge(t)
	c.judgeAll(t)
	release()
	w.settled(t)
}

// cells are the bystanders of one holder.
type cells struct {
	holder  string
	part    string // which part, if the holder has several
	running []running
	failed  int
}

type running struct {
	bystander
	result chan error
}

// beginAll starts the bystanders at the same time, except those named: a third of them in turn, or all of them at full
// size.
func (w *world) beginAll(c *cells, name string, turn int, but []string, same func(context.Context, *world,
	string) error) {
	_, err := txwork() // building it may take longer than any bystander
	w.ok(err)
	c.running = nil
	for i, b := range bystanders {
		if shared[c.holder+"/"+b.name] == "" && !slices.Contains(but, b.name) && (*full || (turn+i)%3 == 0) {
			c.begin(w, b, b.name+" beside "+name)
		}
	}
	if same != nil {
		c.begin(w, bystander{"the same queue", same}, name)
	}
}

func (c *cells) begin(w *world, b bystander, name string) {
	result := make(chan error, 1)
	c.running = append(c.running, running{b, result})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience(b))
		defer cancel()
		result <- b.unit(ctx, w, name)
	}()
}

func (c *cells) patience(b bystander) time.Duration {
	if known[c.holder+"/*"]+known[c.holder+"/"+b.name] != "" {
		return knownPatience
	}
	return patience
}

// judge waits for the bystanders that have begun.
func (c *cells) judge(t *testing.T) {
	t.Helper()
	for _, r := range c.running {
		t.Run(r.name, func(t *testing.T) {
			if c.judgeOne(t, r.bystander, <-r.result) {
				c.failed++
			}
		})
	}
}

// judgeAll checks that what is known about all bystanders together is still true.
func (c *cells) judgeAll(t *testing.T) {
	t.Helper()
	if reason := known[c.holder+"/*"]; reason != "" && c.failed == 0 {
		t.Errorf("item %s is mended here: take %q off the list of what is known", reason, c.holder+"/*")
	}
}

// judgeOne tells whether a cell has failed as it is known to.
func (c *cells) judgeOne(t *testing.T, b bystander, err error) (failed bool) {
	t.Helper()
	cell := c.holder + "/" + b.name
	reason := known[cell] + known[c.holder+"/*"]
	switch {
	case err != nil && reason != "":
		t.Logf("known, item %s: %s %s: %v", reason, c.holder, c.part, err)
		return true
	case err != nil:
		t.Errorf("beside %s %s: %v", c.holder, c.part, err)
	case known[cell] != "":
		t.Errorf("item %s is mended here: take %q off the list of what is known", known[cell], cell)
	}
	return false
}

// settled waits until no due row is left in any queue that has a worker, which shows that none was lost.
func (w *world) settled(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for table, mine := range map[string]string{
		"jobs": fmt.Sprintf("queue IN ('default', '%s', '%s')", other, capped), "outbox": "true",
		"timers": "topic <> 'idle'", "inbox": "consumer <> 'idle'",
	} {
		query := fmt.Sprintf("SELECT count(*) = 0 FROM %s.%s WHERE completed_at IS NULL AND due_at < now() + "+
			"interval '1 minute' AND created_at > $1 AND %s",
			w.Schema, table, mine)
		if err := w.until(ctx, "all of "+table+" has ended", query, w.since); err != nil {
			t.Errorf("after the holder has let go: %v:%s", err, w.left(table, mine))
		}
	}
}

// left describes rows that have not ended, for failure messages.
func (w *world) left(table, mine string) (rows string) {
	query := fmt.Sprintf(`SELECT coalesce(string_agg(E'\n' || left(to_jsonb(l)::text, 800), ''), ' none')
		FROM (SELECT * FROM %s.%s WHERE completed_at IS NULL AND due_at < now() + interval '1 minute' AND created_at > $1 AND %s
		ORDER BY due_at LIMIT 5) AS l`, w.Schema, table, mine)
	if err := w.Pool.QueryRow(context.Background(), query, w.since).Scan(&rows); err != nil {
		return err.Error()
	}
	return rows
}
