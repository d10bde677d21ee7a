package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/txwork/txwork/internal/localpg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := measure
	if len(os.Args) > 1 && os.Args[1] == probeCommand {
		run = probe
	}
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "way: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "way:", err)
		os.Exit(1)
	}
}

// options are the flags of the command line.
type options struct {
	runs      int
	stay      time.Duration
	functions bool
	json      bool
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("way", flag.ContinueOnError)
	set.IntVar(&o.runs, "runs", 5, "`processes` with an item, and as many without")
	set.DurationVar(&o.stay, "stay", 4*time.Second, "`time` that the worker of each process runs")
	set.BoolVar(&o.functions, "functions", false, "print every function")
	set.BoolVar(&o.json, "json", false, "print one JSON object")
	switch err := set.Parse(args); {
	case err != nil:
		return o, err
	case set.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case o.runs < 1 || o.stay < time.Second:
		return o, errors.New("--runs is 1 at least, and --stay is 1s at least")
	}
	return o, nil
}

// A result is what was found of one way.
type result struct {
	Item      string     `json:"item"`
	Functions int        `json:"functions"` // closures included
	Files     int        `json:"files"`
	Parts     []part     `json:"parts"`                // by package, the largest first
	Names     []function `json:"functions_on_the_way"` // in the order of their places
}

func measure(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "way-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "way")
	sources, err := build(ctx, binary)
	if err != nil {
		return err
	}
	server, err := localpg.Start(ctx, localpg.Options{})
	if err != nil {
		return err
	}
	defer server.Stop()
	var all []result
	for i, w := range ways {
		fmt.Fprintf(os.Stderr, "%s: %d processes of %v\n", w.item, 2*o.runs, o.stay)
		s := series{binary: binary, dir: filepath.Join(dir, fmt.Sprint(i)), url: server.URL(), way: w, options: o}
		blocks, err := s.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", w.item, err)
		}
		r, err := sources.functionsOf(blocks)
		if err != nil {
			return err
		}
		r.Item = w.item
		all = append(all, r)
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"runs": o.runs, "ways": all})
	}
	return write(os.Stdout, all, o.functions)
}

func write(to io.Writer, all []result, functions bool) error {
	t := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ONE ITEM, FROM ENQUEUE TO DONE\tFUNCTIONS\tFILES")
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%d\t%d\n", r.Item, r.Functions, r.Files)
	}
	for _, r := range all {
		texts := make([]string, len(r.Parts))
		for i, p := range r.Parts {
			texts[i] = fmt.Sprintf("%s %d", p.Name, p.Functions)
		}
		fmt.Fprintf(t, "\n%s: %s\n", r.Item, strings.Join(texts, ", "))
		for _, f := range r.Names {
			if functions {
				fmt.Fprintf(t, "  %s:%d\t%s\n", f.File, f.Line, f.Name)
			}
		}
	}
	return t.Flush()
}
