package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
)

// defaultSendBatch is large enough that many lines share the wait of a commit for the disk, and small enough that a bad
// line rolls back little.
const defaultSendBatch = 1000

// sendOptions are the flags of send.
type sendOptions struct {
	topic      string
	keyField   string
	dedupField string
	perKey     bool
	log        bool
	onFailure  keyed.Policy
	batch      int
	skipBad    bool
	maxPayload int
	json       bool
	file       string
}

func newSendCommand(a *app) *cobra.Command {
	var o sendOptions
	cmd := newCommand("send --topic TOPIC [FILE|-]", "Enqueue newline-delimited JSON into the outbox, one message per line",
		cobra.MaximumNArgs(1))
	flags := cmd.Flags()
	flags.StringVar(&o.topic, "topic", "", "topic of the messages")
	flags.StringVar(&o.keyField, "key-field", "", "take the key from this field: lines must be objects")
	flags.StringVar(&o.dedupField, "dedup-field", "",
		"take the dedup key from this field; a line whose key the topic already has is not written")
	flags.BoolVar(&o.perKey, "per-key", false, "deliver messages of one key one at a time and in order")
	flags.BoolVar(&o.log, "log", false, "write to an outbox that is a log")
	flags.TextVar(&o.onFailure, "on-failure", keyed.Block,
		"with --per-key, the `policy` for messages behind a failed one: block, park or skip")
	flags.IntVar(&o.batch, "batch", defaultSendBatch, "lines of one transaction")
	flags.BoolVar(&o.skipBad, "skip-bad", false, "report bad lines and continue without them")
	flags.IntVar(&o.maxPayload, "max-payload", outbox.DefaultMaxPayload, "largest payload in bytes")
	jsonVar(flags, &o.json, "end with one JSON object on one line", sendSummary{})
	requiredFlags(cmd, "topic")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.file = "-"
		if len(args) == 1 {
			o.file = args[0]
		}
		if err := o.validate(); err != nil {
			return err
		}
		return a.send(cmd.Context(), o)
	}
	return cmd
}

func (o sendOptions) validate() error {
	if o.topic == "" || len(o.topic) > outbox.MaxTopic {
		return usagef("--topic has %d bytes, it must have 1 to %d", len(o.topic), outbox.MaxTopic)
	}
	if err := validate.Text("topic", o.topic); err != nil {
		return usageError{err}
	}
	if o.perKey && o.keyField == "" {
		return usagef("--per-key orders messages by their keys: say with --key-field which field has them")
	}
	if o.onFailure != keyed.Block && !o.perKey {
		return usagef("--on-failure needs --per-key: without it no message is behind another")
	}
	if o.onFailure != keyed.Block && o.log {
		return usagef("--on-failure is not possible with --log: a dead letter blocks its key in each subscription")
	}
	if o.batch < 1 || o.batch > workqueue.MaxBatch {
		return usagef("--batch is %d, it must be between 1 and %d", o.batch, workqueue.MaxBatch)
	}
	if o.maxPayload < 1 {
		return usagef("--max-payload is %d, it must be at least 1", o.maxPayload)
	}
	return nil
}

// send writes the input and prints the summary, even after an error, since earlier batches are committed.
func (a *app) send(ctx context.Context, o sendOptions) error {
	input, size, err := a.openInput(o.file)
	if err != nil {
		return err
	}
	defer input.Close()
	return a.withOutbox(ctx, o.outbox(), "pass --log", func(d *database, box *outbox.Outbox) error {
		s := &sender{sendOptions: o, pool: d.Pool, outbox: box, stderr: a.stderr, progress: a.newProgress(size)}
		err := s.sumUp(ctx, readLines(ctx, input, o.maxPayload))
		if printErr := a.printSummary(o, s.sum); err == nil {
			err = printErr
		}
		return err
	})
}

func (o sendOptions) outbox() outbox.Options {
	options := outbox.Options{MaxPayload: o.maxPayload, OnFailure: o.onFailure}
	if o.log {
		options.Storage = outbox.Log
	}
	if o.perKey {
		options.Ordering = outbox.PerKey
	}
	return options
}

// openInput also returns the size of the input, -1 if it is unknown.
func (a *app) openInput(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), -1, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// A sendSummary is what send ends with.
type sendSummary struct {
	Sent       int     `json:"sent"`                       // messages that were sent
	Duplicates int     `json:"duplicates"`                 // lines whose dedup key was in the topic already
	Skipped    int     `json:"skipped"`                    // bad lines, with --skip-bad
	Batches    int     `json:"batches"`                    // number of transactions
	Seconds    float64 `json:"seconds"`                    // how long it took
	ResumeFrom int     `json:"resume_from_line,omitempty"` // line to resume from after an error
	Error      string  `json:"error,omitempty"`            // why it ended early
}

func (a *app) printSummary(o sendOptions, sum sendSummary) error {
	if o.json {
		return a.printJSON(sum)
	}
	if sum.Error != "" {
		return nil // the error has said it
	}
	text := fmt.Sprintf("sent %s to topic %s in %s", plural(sum.Sent, "message"), named(o.topic),
		batches(sum.Batches))
	if o.dedupField != "" {
		text += fmt.Sprintf(", left out %s", plural(sum.Duplicates, "duplicate"))
	}
	if sum.Skipped > 0 {
		text += fmt.Sprintf(", skipped %s", plural(sum.Skipped, "bad line"))
	}
	_, err := fmt.Fprintf(a.stdout, "%s (%.1f s)\n", text, sum.Seconds)
	return err
}

func batches(n int) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}
