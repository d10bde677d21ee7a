package logs

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

// options are those of the command line.
type options struct {
	messages  int
	seconds   float64
	rounds    int
	binaries  string
	json      string
	stores    []string
	consumers []int
	hundred   bool
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("bench logs", flag.ContinueOnError)
	set.IntVar(&o.messages, "messages", 100_000, "`messages` of a drain and of a bulk write")
	set.Float64Var(&o.seconds, "seconds", 5, "`seconds` of single writes, and of each rate of arrivals")
	set.IntVar(&o.rounds, "rounds", 5, "`times` that each line is measured; its figures are medians")
	set.StringVar(&o.binaries, "postgres", "", "`directory` of PostgreSQL's binaries")
	set.StringVar(&o.json, "json", "", "`file` of all results")
	names := set.String("stores", "rows,log,pgq,pgmq", "`names` of what is measured, separated by commas")
	numbers := set.String("consumers", "1,2,5", "`numbers` of consumers, separated by commas")
	set.BoolVar(&o.hundred, "hundred", true, "measure 100 subscriptions of which 97 are idle, too")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*numbers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 20 {
			return o, fmt.Errorf("--consumers has %q, want numbers from 1 to 20", text)
		}
		o.consumers = append(o.consumers, n)
	}
	o.stores = strings.Split(*names, ",")
	for _, name := range o.stores {
		if stores[name] == nil {
			return o, fmt.Errorf("there is no store %q", name)
		}
	}
	if o.messages < bulk || o.rounds < 1 || !(o.seconds > 0 && o.seconds <= 600) || set.NArg() > 0 {
		return o, fmt.Errorf("--messages must be at least %d, --rounds at least 1, --seconds between 0 and 600", bulk)
	}
	return o, nil
}

// A line is what was measured of a store with a number of consumers, of which each gets all messages.
type line struct {
	Store     string `json:"store"`
	Consumers int    `json:"consumers"`
	figures
}

// Run measures and prints a table.
func Run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	server, err := measure.Start(ctx, map[string]string{"max_connections": "300"}, o.binaries)
	if err != nil {
		return err
	}
	defer server.Stop()
	l := &lab{options: o, server: server, progress: progress}
	lines, err := l.measureAll(ctx)
	if err != nil {
		return errors.Join(err, write(out, lines, nil)) // what there is
	}
	idle := []idleFigures{}
	for range o.rounds {
		if !o.hundred {
			break
		}
		f, err := l.measureIdle(ctx)
		if err != nil {
			return err
		}
		idle = append(idle, f)
	}
	if o.json != "" {
		text, err := json.MarshalIndent(map[string]any{"lines": lines, "hundred": idle}, "", "\t")
		if err = errors.Join(err, os.WriteFile(o.json, append(text, '\n'), 0o644)); err != nil {
			return err
		}
	}
	return write(out, lines, idle)
}

// measureAll measures every line in each round. Rounds run in opposite orders.
func (l *lab) measureAll(ctx context.Context) (lines []line, err error) {
	type cell struct {
		name      string
		consumers int
	}
	var cells []cell
	for _, name := range l.stores {
		for _, n := range l.consumers {
			if name != "rows" || n == 1 {
				cells = append(cells, cell{name, n})
			}
		}
	}
	absent := map[string]bool{}
	for round := range l.rounds {
		for _, c := range cells {
			if absent[c.name] {
				continue
			}
			began := time.Now()
			f, err := l.measure(ctx, stores[c.name], c.consumers)
			if missing := new(notThere); errors.As(err, &missing) {
				absent[c.name] = true
				fmt.Fprintf(l.progress, "%s is left out: %v\n", c.name, err)
				continue
			}
			if err != nil {
				return lines, fmt.Errorf("%s with %d: %w", c.name, c.consumers, err)
			}
			fmt.Fprintf(l.progress, "round %d: %s with %d (%.0f s)\n", round+1, c.name, c.consumers,
				time.Since(began).Seconds())
			lines = append(lines, line{c.name, c.consumers, f})
		}
		slices.Reverse(cells)
	}
	return lines, nil
}
