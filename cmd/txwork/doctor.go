package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/migrations"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	doctor.Options
	failOn   string
	watch    bool
	interval time.Duration
	fix, yes bool
	json     bool
	width    int
}

func newDoctorCommand(a *app) *cobra.Command {
	o := doctorOptions{}
	cmd := newCommand("doctor", "Find out what is wrong, what it means, and how to fix it", noArguments)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Ignore, "ignore", nil, "codes of findings to ignore")
	flags.DurationVar(&o.Timeout, "timeout", doctor.DefaultTimeout,
		"how long an examination may take; checks that were not run make it incomplete")
	flags.DurationVar(&o.StatementTimeout, "statement-timeout", doctor.DefaultStatementTimeout,
		"how long each statement may take; checks that take longer make the examination incomplete")
	flags.StringVar(&o.failOn, "fail-on", string(doctor.Warning),
		"the lowest `severity` that makes the exit code non-zero: warning, critical or never")
	flags.BoolVar(&o.watch, "watch", false, "repeat the examination until interrupted")
	flags.DurationVar(&o.interval, "interval", 10*time.Second, "with --watch, the time between two examinations")
	flags.BoolVar(&o.fix, "fix", false, "fix what can be fixed safely, after asking")
	flags.BoolVar(&o.yes, "yes", false, "with --fix, do not ask")
	jsonVar(flags, &o.json, jsonUsage+"; with --watch, one for each examination", examined{})
	flags.IntVar(&o.width, "width", 0, "wrap the text at so many columns, but neither commands nor SQL (default: the "+
		"terminal's width; elsewhere it is not wrapped)")
	cmd.RegisterFlagCompletionFunc("ignore", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		var codes []string
		for _, k := range doctor.Kinds() {
			codes = append(codes, k.Code+"\t"+k.Title)
		}
		return codes, cobra.ShellCompDirectiveNoFileComp
	})
	cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"warning", "critical", "never"},
		cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Schema, o.Programs = a.schema, programs(a.schema)
		done, err := a.doctor(cmd.Context(), o)
		if o.json && !errors.As(err, new(foundError)) && err != nil && len(done) > 0 {
			return errors.Join(err, a.printJSON(examined{Schema: a.schema, Error: told(cmd.Context(), err),
				Findings: []doctor.Finding{}, Skipped: []doctor.Skipped{}, Fixed: done}))
		}
		return err
	}
	return cmd
}

// check says what is wrong with the flags.
func (o doctorOptions) check() error {
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	switch {
	case o.failOn != string(doctor.Warning) && o.failOn != string(doctor.Critical) && o.failOn != "never":
		return usagef("--fail-on %q is unknown: want warning, critical or never", o.failOn)
	case o.watch && o.fix:
		return usagef("--watch only looks: leave out --fix")
	case o.interval < time.Second:
		return usagef("--interval is %v, it must be at least 1s", o.interval)
	case o.width < 0 || o.width > 0 && o.width < minWidth:
		return usagef("--width is %d, it must be at least %d", o.width, minWidth)
	case o.yes && !o.fix:
		return usagef("--yes goes with --fix")
	case o.fix && o.json && !o.yes:
		return usagef("--json cannot ask: pass --yes")
	}
	return nil
}

// examined is what doctor prints as JSON.
type examined struct {
	Healthy  bool                `json:"healthy"`  // every check was made and found nothing
	Complete bool                `json:"complete"` // every check was made in full
	Schema   string              `json:"schema"`
	Database string              `json:"database"`
	Server   string              `json:"server"`          // version of PostgreSQL
	Role     string              `json:"role"`            // role that examined the database
	At       *time.Time          `json:"at"`              // by the clock of the server; null if an examination failed after others, or after --fix has fixed something
	Took     float64             `json:"took_seconds"`    // how long the examination took
	Findings []doctor.Finding    `json:"findings"`        // the most severe first
	Skipped  []doctor.Skipped    `json:"skipped"`         // checks that were not made, or not in full
	Absent   []migrations.Domain `json:"absent"`          // domains that the schema does not have; they are not examined
	Fixed    []fixed             `json:"fixed,omitempty"` // what --fix ran
	Error    string              `json:"error,omitempty"` // why the examination failed
}

// fixed is a finding that --fix has dealt with.
type fixed struct {
	Code  string `json:"code"`            // code of the finding
	Title string `json:"title"`           // title of the finding
	Error string `json:"error,omitempty"` // why it could not be fixed
}

// A foundError says that doctor found something or could not look everywhere, as opposed to a failure of the command
// that has not been reported yet.
type foundError struct {
	text string
	code int
}

func (e foundError) Error() string { return e.text }

// verdict turns the report into the command's error, by the most severe finding. What a check that was not made would
// have found may be critical, so it counts for more than a warning.
func (o doctorOptions) verdict(r doctor.Report) error {
	critical, warnings := r.Count(doctor.Critical), r.Count(doctor.Warning)
	text := fmt.Sprintf("found %d critical, %s", critical, plural(warnings, "warning"))
	if !r.Complete() {
		text += "; " + unmade(r)
	}
	switch {
	case o.failOn == "never":
		return nil
	case critical > 0:
		return foundError{text, exitCritical}
	case !r.Complete():
		return foundError{"incomplete: " + text, exitIncomplete}
	case warnings > 0 && o.failOn == string(doctor.Warning):
		return foundError{text, exitWarning}
	}
	return nil
}

// unmade says how many checks were not made.
func unmade(r doctor.Report) string {
	if len(r.Skipped) == 1 {
		return "1 check could not be made in full"
	}
	return fmt.Sprintf("%d checks could not be made in full", len(r.Skipped))
}

// doctor returns what was fixed, even if it also returns an error.
func (a *app) doctor(ctx context.Context, o doctorOptions) (done []fixed, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	err = a.withAnySession(ctx, func(d *database) error {
		if o.watch {
			return a.watchDoctor(ctx, d, o)
		}
		r, err := doctor.Examine(ctx, d.Pool, o.Options)
		if err != nil {
			return explain(err)
		}
		if o.fix {
			if r, done, err = a.fixFindings(ctx, d, o, r); err != nil {
				return err
			}
		}
		if err := a.printExamined(o, r, done); err != nil {
			return err
		}
		return o.verdict(r)
	})
	return done, err
}

// watchDoctor examines the database repeatedly. An examination that fails is reported, and the next one may succeed.
// The verdict is that of the last one: without one, the command was interrupted before it was done.
func (a *app) watchDoctor(ctx context.Context, d *database, o doctorOptions) error {
	verdict := fmt.Errorf("before the first examination: %w", context.Canceled)
	for {
		r, err := doctor.Examine(ctx, d.Pool, o.Options)
		if ctx.Err() != nil {
			return verdict
		}
		if err != nil {
			verdict = foundError{"the last examination failed", exitFailure}
			err = a.printFailure(o, err)
		} else {
			verdict = o.verdict(r)
			err = a.printExamined(o, r, nil)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return verdict
		case <-time.After(o.interval):
		}
	}
}

// printFailure reports an examination that failed.
func (a *app) printFailure(o doctorOptions, failure error) error {
	if o.json {
		return a.printJSON(examined{Schema: a.schema, Error: explain(failure).Error(), Findings: []doctor.Finding{},
			Skipped: []doctor.Skipped{}})
	}
	_, err := fmt.Fprintf(a.stderr, "txwork: %s\n", strings.TrimPrefix(explain(failure).Error(), "txwork: "))
	return err
}

// fixFindings fixes what can be fixed, and examines the database again.
func (a *app) fixFindings(ctx context.Context, d *database, o doctorOptions, r doctor.Report) (doctor.Report, []fixed,
	error) {
	answers := bufio.NewReader(a.stdin)
	var done []fixed
	for _, f := range r.Findings {
		if !f.Fixable {
			continue
		}
		if !o.yes {
			if yes, err := a.ask(ctx, answers, f); err != nil || !yes {
				if err != nil {
					return r, done, err
				}
				continue
			}
		}
		a.tellFix(f)
		one := fixed{Code: f.Code, Title: f.Title}
		progress := a.newWait("fixing")
		err := doctor.Fix(ctx, d.Pool, f)
		progress.end()
		if err != nil {
			if ctx.Err() != nil {
				return r, done, fmt.Errorf("fixing %s: %w", harmless(f.Title), err)
			}
			one.Error = explain(err).Error()
		}
		done = append(done, one)
		if !o.json {
			a.printFixed(one)
		}
	}
	if len(done) == 0 {
		return r, done, nil
	}
	r, err := doctor.Examine(ctx, d.Pool, o.Options)
	return r, done, explain(err)
}

// tellFix says on standard error what runs now, and what it may wait for.
func (a *app) tellFix(f doctor.Finding) {
	fmt.Fprintf(a.stderr, "fixing: %s\n", harmless(f.Title))
	for _, s := range f.Remedy.SQL {
		fmt.Fprintf(a.stderr, "    %s\n", s)
		if strings.Contains(s, " CONCURRENTLY ") {
			fmt.Fprintln(a.stderr, "    It reads the whole table and waits for every transaction that began before it; the lock-wait of "+
				"'txwork doctor' names these. If you stop it, it leaves an invalid index, which 'txwork doctor' finds.")
		}
	}
}

// ask shows the SQL that would run and asks for permission. The end of the input means no.
func (a *app) ask(ctx context.Context, answers *bufio.Reader, f doctor.Finding) (yes bool, err error) {
	fmt.Fprintf(a.stdout, "%s\n", harmless(f.Title))
	for _, s := range f.Remedy.SQL {
		fmt.Fprintf(a.stdout, "    %s\n", s)
	}
	if _, err := fmt.Fprint(a.stdout, "Run this? [y/N] "); err != nil {
		return false, err
	}
	yes, answered, err := answer(ctx, answers)
	if !answered {
		fmt.Fprintln(a.stdout)
	}
	return yes, err
}

func (a *app) printFixed(f fixed) {
	if f.Error != "" {
		fmt.Fprintf(a.stdout, "not fixed: %s: %s\n", harmless(f.Title),
			harmless(strings.TrimPrefix(f.Error, "txwork: ")))
		return
	}
	fmt.Fprintf(a.stdout, "fixed: %s\n", harmless(f.Title))
}

func (a *app) printExamined(o doctorOptions, r doctor.Report, done []fixed) error {
	if o.json {
		return a.printJSON(examined{
			Healthy: len(r.Findings) == 0 && r.Complete(), Complete: r.Complete(), Schema: r.Schema,
			Database: r.Database, Server: r.Server, Role: r.Role,
			At:   &r.At,
			Took: r.Took.Seconds(), Findings: r.Findings, Skipped: r.Skipped, Absent: r.Absent, Fixed: done,
		})
	}
	var b strings.Builder
	if o.watch {
		fmt.Fprintf(&b, "%s  ", r.At.UTC().Format("15:04:05Z"))
	}
	fmt.Fprintf(&b, "schema %s of database %s: %s (%s)\n", r.Schema, named(r.Database), headline(r), rough(r.Took))
	width, colours := o.width, false
	if out, ok := terminalOf(a.stdout); ok {
		colours = a.colours()
		if w, _, err := sizeOf(out); err == nil && width == 0 {
			width = max(w, minWidth)
		}
	}
	for _, f := range r.Findings {
		printFinding(&b, f, width, colours)
	}
	printSkipped(&b, r.Skipped, width)
	if len(r.Absent) > 0 {
		fmt.Fprintf(&b, "\nnot in the schema: %s\n", listDomains(r.Absent))
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// headline is what an examination has found, in one line.
func headline(r doctor.Report) string {
	found := fmt.Sprintf("%d critical, %s", r.Count(doctor.Critical), plural(r.Count(doctor.Warning), "warning"))
	switch {
	case len(r.Findings) == 0 && r.Complete():
		return "nothing is wrong"
	case len(r.Findings) == 0:
		return "incomplete: nothing was found, but " + unmade(r)
	case !r.Complete():
		return "incomplete: " + found + "; " + unmade(r)
	}
	return found
}

// minWidth is the narrowest width that text is laid out for.
const minWidth = 40

// printFinding prints the text of a finding wrapped to width (0 is unlimited), and its commands unwrapped so that they
// can be copied.
func printFinding(b *strings.Builder, f doctor.Finding, width int, colours bool) {
	look := map[doctor.Severity]style{doctor.Critical: alarm, doctor.Warning: warning}[f.Severity]
	b.WriteString("\n")
	for _, line := range wrap(strings.ToUpper(string(f.Severity))+"  ", fmt.Sprintf("%s  [%s]", harmless(f.Title),
		f.Code), width) {
		b.WriteString(styledLine{text: line, style: look}.paint(colours) + "\n")
	}
	print := func(label, text string) {
		for _, line := range wrap(fmt.Sprintf("  %-11s", label), text, width) {
			b.WriteString(line + "\n")
		}
	}
	print("impact:", harmless(f.Meaning))
	for _, e := range f.Evidence {
		print("evidence:", evidenceText(e))
	}
	print("fix:", harmless(f.Remedy.Do))
	for _, c := range f.Remedy.Commands {
		fmt.Fprintf(b, "             $ %s\n", harmless(c))
	}
	for _, s := range f.Remedy.SQL {
		fmt.Fprintf(b, "             %s\n", strings.ReplaceAll(s, "\n", "\n             "))
	}
	if f.Fixable {
		fmt.Fprintf(b, "             or: txwork doctor --fix\n")
	}
}

// wrap breaks a text between words into lines of at most width, indented below the first line's prefix. A width of 0 is
// unlimited. A word that is longer than the width gets a line of its own.
func wrap(prefix, text string, width int) (lines []string) {
	line := prefix
	empty := true
	for _, word := range strings.Split(text, " ") {
		if !empty && width > 0 && uniseg.StringWidth(line)+1+uniseg.StringWidth(word) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line, empty = strings.Repeat(" ", len(prefix)), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return append(lines, line)
}

// evidenceText formats evidence for people.
func evidenceText(e doctor.Evidence) string {
	fields := make([]string, len(e))
	for i, field := range e {
		fields[i] = field.Name + "=" + fieldText(field)
	}
	return strings.Join(fields, " ")
}

// fieldText formats a value of the evidence for people.
func fieldText(f doctor.Field) string {
	switch v := f.Value.(type) {
	case float64:
		if strings.HasSuffix(f.Name, "_seconds") {
			return rough(postgres.Seconds(v))
		}
		return fmt.Sprint(v)
	case string:
		return word(v)
	case []string:
		words := make([]string, len(v))
		for i, s := range v {
			words[i] = word(s)
		}
		return strings.Join(words, ",")
	}
	return fmt.Sprint(f.Value)
}

// word returns a text as one word of a line, quoted if it could be read as several.
func word(s string) string {
	if s == "" || strings.ContainsAny(s, ` ="\`) || harmless(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// printSkipped lists what could not be examined, with each reason printed once.
func printSkipped(b *strings.Builder, all []doctor.Skipped, width int) {
	type reason struct{ reason, holders, remedy string }
	by := map[reason][]string{}
	var order []reason
	for _, s := range all {
		var holders []string
		for _, h := range s.Holders {
			holders = append(holders, evidenceText(h))
		}
		r := reason{s.Reason, strings.Join(holders, "\n"), s.Remedy}
		if by[r] == nil {
			order = append(order, r)
		}
		what := s.Check
		if s.Table != "" {
			what += " of " + s.Table
		}
		by[r] = append(by[r], what)
	}
	for _, r := range order {
		lines := append([]string{""}, wrap("not checked: ", strings.Join(by[r], ", "), width)...)
		lines = append(lines, wrap("  because:    ", harmless(r.reason), width)...)
		for holder := range strings.Lines(r.holders) {
			lines = append(lines, wrap("  in the way: ", strings.TrimSuffix(holder, "\n"), width)...)
		}
		if r.remedy != "" {
			lines = append(lines, wrap("  fix:        ", harmless(r.remedy), width)...)
		}
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
}
