package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A content is the flags that give a timer its topic and its payload.
type content struct {
	topic       string
	text        string
	file        string
	maxAttempts int
}

func (c *content) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.topic, "topic", "", "topic, which says who handles it")
	flags.StringVar(&c.text, "payload", "", "payload, as it is")
	flags.StringVar(&c.file, "payload-file", "", "take the payload from this `file`, - is standard input")
	flags.IntVar(&c.maxAttempts, "max-attempts", workqueue.DefaultMaxAttempts, "how often a firing is tried")
	requiredFlags(cmd, "topic")
	cmd.MarkFlagsMutuallyExclusive("payload", "payload-file")
}

func (c *content) validate() error {
	if c.topic == "" || len(c.topic) > timers.MaxTopic {
		return usagef("--topic has %d bytes, it must have 1 to %d", len(c.topic), timers.MaxTopic)
	}
	if c.maxAttempts < 1 || c.maxAttempts > math.MaxInt32 {
		return usagef("--max-attempts is %d, it must be at least 1", c.maxAttempts)
	}
	return nil
}

// payload reads at most as much of a file as a timer may carry, and refuses a longer one.
func (c *content) payload(a *app) ([]byte, error) {
	if c.file == "" {
		return []byte(c.text), nil
	}
	input, _, err := a.openInput(c.file)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	data, err := io.ReadAll(io.LimitReader(input, timers.DefaultMaxPayload+1))
	if err == nil && len(data) > timers.DefaultMaxPayload {
		err = fmt.Errorf("%s has more than %d bytes, the largest payload", c.name(), timers.DefaultMaxPayload)
	}
	return data, err
}

func (c *content) name() string {
	if c.file == "-" {
		return "standard input"
	}
	return c.file
}

// A moment is a flag for a time.
type moment struct{ time.Time }

var _ pflag.Value = (*moment)(nil)

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339Nano)
}

// Type implements pflag.Value.
func (m *moment) Type() string { return "time" }

// Set implements pflag.Value.
func (m *moment) Set(text string) (err error) {
	if m.Time, err = time.Parse(time.RFC3339, text); err != nil {
		return fmt.Errorf("want a time with its zone such as 2027-03-01T09:30:00+01:00 or 2027-03-01T08:30:00Z")
	}
	return nil
}
