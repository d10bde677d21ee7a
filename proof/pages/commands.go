package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// commandLines are the reading commands of the program. {} is replaced by what a query finds.
var commandLines = []struct{ line, find string }{
	{line: "stats"}, {line: "stats --since 1h"}, {line: "stats --since 7d"}, {line: "doctor --fail-on never"},
	{line: "top --once --width 120"},
	{line: "keys jobs"}, {line: "keys jobs --after customer-9"}, {line: "keys outbox"}, {line: "joins jobs"},
	{line: "joins jobs --status completed"},
	{line: "joins jobs --label nothing"},
	{line: "joins jobs {}", find: "SELECT id::text FROM txwork.jobs_join WHERE label = 'largest'"},
	{line: "jobs list"}, {line: "jobs list --kind kind-59"}, {line: "jobs list --kind nothing"},
	{line: "jobs list --queue queue-19"}, {line: "jobs list --status failed"},
	{line: "jobs list --status in_progress"}, {line: "jobs list --status scheduled --queue queue-19"},
	{line: "jobs list --schedule schedule-0001"},
	{line: "jobs queues"},
	{line: "jobs show {}", find: "SELECT id::text FROM txwork.jobs WHERE failed_at IS NOT NULL LIMIT 1"},
	{line: "timers list"}, {line: "timers list --status failed"}, {line: "timers list --status in_progress"},
	{line: "timers list --prefix timer-77"}, {line: "timers list --after timer-5"},
	{line: "outbox topics"}, {line: "inbox topics"}, {line: "schedules list"}, {line: "audit"},
	{line: "audit --who nobody"}, {line: "audit --since 7d --verb redrive"},
	{line: "show jobs {}", find: "SELECT id::text FROM txwork.jobs WHERE status = 2 LIMIT 1"},
	{line: "show outbox {}", find: "SELECT id::text FROM txwork.outbox WHERE completed_at IS NULL AND waiting LIMIT 1"},
	{line: "show inbox {}", find: "SELECT id::text FROM txwork.inbox WHERE failed_at IS NOT NULL LIMIT 1"},
	{line: "show timers {}", find: "SELECT id::text FROM txwork.timers WHERE completed_at IS NULL AND NOT waiting LIMIT 1"},
	{line: "purge jobs --dry-run --done-older-than 1d"}, {line: "purge outbox --dry-run --failed-older-than 1d"},
	{line: "purge inbox --dry-run --done-older-than 1d --error nothing"},
	{line: "redrive jobs --all-failed --dry-run"}, {line: "redrive jobs --all-failed --dry-run --error nothing"},
	{line: "cancel jobs --all-live --dry-run"},
	{line: "discard outbox --all-failed --dry-run"}, {line: "migrate status"},
}

// commands are the reading commands, with the lists of every table in every state and with every filter.
func (d *data) commands(ctx context.Context) (all [][]string, err error) {
	for _, c := range commandLines {
		line := strings.Fields(c.line)
		if c.find != "" {
			var value string
			if err := d.Pool.QueryRow(ctx, c.find).Scan(&value); err != nil {
				return nil, fmt.Errorf("%s: %w", c.find, err)
			}
			for i := range line {
				line[i] = strings.ReplaceAll(line[i], "{}", value)
			}
		}
		all = append(all, line)
	}
	for _, table := range []string{"jobs", "outbox", "inbox", "timers"} {
		for _, state := range states {
			list := []string{"list", table, "--status", state}
			all = append(all, list)
			after, err := d.position(ctx, table, state)
			if err != nil {
				return nil, err
			}
			if after != "" {
				all = append(all, append(list[:4:4], "--after", after))
			}
		}
		for _, f := range filters[table] {
			list := []string{"list", table, "--status", "done"}
			for _, one := range strings.Split(f, "&") {
				name, value, _ := strings.Cut(one, "=")
				if name == "newer" || name == "older" {
					name += "-than"
				}
				list = append(list, "--"+name, value)
			}
			all = append(all, list)
		}
	}
	return all, nil
}

// measureCommands runs each command a number of times, in turns. What is measured is the whole program, its start
// included.
func (d *data) measureCommands(ctx context.Context, o options, progress io.Writer) ([]Timing, error) {
	program, remove, err := build(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	commands, err := d.commands(ctx)
	if err != nil {
		return nil, err
	}
	commands = slices.DeleteFunc(commands, func(line []string) bool {
		return !o.only.MatchString(strings.Join(line, " "))
	})
	timings := make([]Timing, len(commands))
	rounds := (o.rounds + 4) / 5
	for round := range rounds {
		for i, line := range commands {
			took, problem, err := d.run(ctx, program, line)
			if err != nil {
				return nil, err
			}
			timings[i].What = "txwork " + strings.Join(line, " ")
			timings[i].Problem = problem
			timings[i].all = append(timings[i].all, took)
		}
		fmt.Fprintf(progress, "pages: commands, round %d of %d\n", round+1, rounds)
	}
	sum(timings)
	return timings, nil
}

// build builds the program. Remove removes it.
func build(ctx context.Context) (program string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "pages-")
	if err != nil {
		return "", nil, err
	}
	program = filepath.Join(dir, "txwork")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/txwork").CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%w\n%s", err, out), os.RemoveAll(dir))
	}
	return program, func() { _ = os.RemoveAll(dir) }, nil
}

func (d *data) run(ctx context.Context, program string, line []string) (took time.Duration, problem string, err error) {
	command := exec.CommandContext(ctx, program, line...)
	command.Env = append(os.Environ(), "TXWORK_DATABASE_URL="+d.URL)
	var said bytes.Buffer
	command.Stderr = &said
	began := time.Now()
	err = command.Run()
	took = time.Since(began)
	if _, failed := errors.AsType[*exec.ExitError](err); failed && ctx.Err() == nil {
		return took, strings.TrimSpace(said.String()), nil
	}
	return took, "", err
}
