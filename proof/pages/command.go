package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/txwork/txwork/internal/measure"
)

// limit is what each page and command should take at most, in milliseconds.
const limit = 200

type options struct {
	rows     int
	url      string
	keep     bool
	rounds   int
	only     *regexp.Regexp
	commands bool
	cold     bool
	reads    bool
	json     bool
}

func parse(args []string, progress io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("pages", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.rows, "rows", 1_000_000, "`rows` of all domains together")
	flags.StringVar(&o.url, "database-url", "", "`URL` of a database that was filled with --keep")
	flags.BoolVar(&o.keep, "keep", false, "fill a server, print its URL, and keep it until interrupted")
	flags.IntVar(&o.rounds, "rounds", 100, "`times` that each page is asked for")
	only := flags.String("only", "", "measure pages and commands that match this `expression` only")
	flags.BoolVar(&o.commands, "commands", true, "measure the reading commands, too, a fifth as often")
	flags.BoolVar(&o.cold, "cold", false, "ask for each page once with nothing in memory first: the server is restarted, "+
		"with --database-url by you")
	flags.BoolVar(&o.reads, "reads", true, "ask once more for each page, and count what the server reads for it")
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.only, err = regexp.Compile(*only)
	return o, err
}

// A Result is what was measured. Its JSON names are stable.
type Result struct {
	Rows     int64    `json:"rows"`
	Bytes    int64    `json:"bytes"`
	Reading  float64  `json:"shared_reading_ms"` // of what all viewers see together
	Pages    []Timing `json:"pages"`             // the slowest first
	Commands []Timing `json:"commands"`
}

// Run fills a server, and measures. It has found something if a page or a command takes too long.
func Run(ctx context.Context, args []string, out, progress io.Writer) (found bool, err error) {
	o, err := parse(args, progress)
	if err != nil {
		return false, err
	}
	d, err := prepare(ctx, o.url, o.rows, progress)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if o.keep {
		fmt.Fprintln(out, d.URL)
		<-ctx.Done()
		return false, nil
	}
	r, err := d.measure(ctx, o, progress)
	if err != nil {
		return false, err
	}
	if o.json {
		return r.slow(), json.NewEncoder(out).Encode(r)
	}
	return r.slow(), r.print(out)
}

func (d *data) measure(ctx context.Context, o options, progress io.Writer) (r Result, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go d.alive(ctx)
	err = d.Pool.QueryRow(ctx, `SELECT sum(c.reltuples)::bigint, pg_database_size(current_database()) FROM pg_class AS c
		WHERE c.oid IN ('txwork.jobs'::regclass, 'txwork.outbox'::regclass, 'txwork.inbox'::regclass,
			'txwork.timers'::regclass)`).Scan(&r.Rows, &r.Bytes)
	if err != nil {
		return r, err
	}
	asks, err := d.asks(ctx)
	if err != nil {
		return r, err
	}
	asks = slices.DeleteFunc(asks, func(a ask) bool { return !o.only.MatchString(a.Path) })
	var cold []float64
	if o.cold {
		if cold, err = d.measureCold(ctx, asks); err != nil {
			return r, err
		}
	}
	if r.Pages, r.Reading, err = d.measurePages(ctx, asks, o, progress); err != nil {
		return r, err
	}
	for i := range cold {
		r.Pages[i].Cold = &cold[i]
	}
	if o.commands {
		if r.Commands, err = d.measureCommands(ctx, o, progress); err != nil {
			return r, err
		}
	}
	for _, all := range [][]Timing{r.Pages, r.Commands} {
		slices.SortStableFunc(all, func(a, b Timing) int { return cmp.Compare(b.P99, a.P99) })
	}
	return r, nil
}

// measureCold asks for each page once, after a restart for all of them: pages that are like one before find in memory
// what that one has read.
func (d *data) measureCold(ctx context.Context, asks []ask) (cold []float64, err error) {
	if d.server != nil {
		if err := d.chill(ctx); err != nil {
			return nil, err
		}
	}
	b, err := d.dashboard(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer b.close()
	for _, a := range asks {
		took, _, err := b.ask(ctx, a.Path)
		if err != nil {
			return nil, err
		}
		cold = append(cold, measure.Milliseconds(took))
	}
	return cold, nil
}

func (r Result) slow() bool {
	slow := func(t Timing) bool { return t.P99 >= limit }
	return slices.ContainsFunc(r.Pages, slow) || slices.ContainsFunc(r.Commands, slow)
}

// print prints what was slowest, and what could not be shown.
func (r Result) print(out io.Writer) error {
	fmt.Fprintf(out, "%d rows, %d MB; what all viewers see together is read in %.0f ms\n", r.Rows, r.Bytes>>20,
		r.Reading)
	for _, all := range []struct {
		what    string
		timings []Timing
	}{{"pages", r.Pages}, {"commands", r.Commands}} {
		if len(all.timings) == 0 {
			continue
		}
		over := 0
		for _, t := range all.timings {
			if t.P99 >= limit {
				over++
			}
		}
		fmt.Fprintf(out, "\n%d %s, %d of them at %d ms or more (p99); the slowest:\n\n%9s %9s %9s %8s %8s\n",
			len(all.timings), all.what, over, limit, "p50 ms", "p99 ms", "cold ms", "entries", "blocks")
		for i, t := range all.timings {
			if i < max(over, 25) || t.Problem != "" {
				fmt.Fprintln(out, t)
			}
		}
	}
	return nil
}

// String is a line of the report.
func (t Timing) String() string {
	cold, entries, blocks := "", "", ""
	if t.Cold != nil {
		cold = fmt.Sprintf("%.1f", *t.Cold)
	}
	if t.Reads != nil {
		entries, blocks = fmt.Sprint(t.Reads.Entries), fmt.Sprint(t.Reads.Blocks)
	}
	text := fmt.Sprintf("%9.1f %9.1f %9s %8s %8s  %s", t.P50, t.P99, cold, entries, blocks, t.What)
	if t.Deep {
		text += "  (page 1,000)"
	}
	if t.Problem != "" {
		text += "\n" + "        ! " + t.Problem
	}
	return text
}
