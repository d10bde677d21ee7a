package protocol

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ConfigEnv is the environment variable that holds the [Config].
const ConfigEnv = "BENCH_CONFIG"

// A Phase is what one process of a peer does.
type Phase string

// The phases.
const (
	Describe Phase = "describe" // says what the peer is; there is no database
	Prepare  Phase = "prepare"  // makes the peer's tables in an empty database
	Fill     Phase = "fill"     // writes jobs with the peer's fastest call
	Work     Phase = "work"     // does the jobs that are there, until it is stopped
	Latency  Phase = "latency"  // writes one job at a time while an idle worker waits
	Single   Phase = "single"   // writes one job a transaction, on several connections
	Pace     Phase = "pace"     // writes jobs at a rate while a worker does them
)

// A Config is what the runner wants of a phase.
type Config struct {
	DatabaseURL  string  `json:"database_url"`
	Profile      string  `json:"profile"`       // one of those that the peer describes
	Deleted      bool    `json:"deleted"`       // done jobs are deleted; else they are kept
	Jobs         int     `json:"jobs"`          // of fill, work and latency
	PayloadBytes int     `json:"payload_bytes"` // of each job
	Batch        int     `json:"batch"`         // jobs of one call and transaction of fill
	Connections  int     `json:"connections"`   // of single and pace, and of the pools of the others
	Seconds      float64 `json:"seconds"`       // of single and pace
	Concurrency  int     `json:"concurrency"`   // handlers at once; 0: the profile's
	// of work: that do Jobs together, of which this is one; 0 if it is alone
	Processes int     `json:"processes"`
	Rate      float64 `json:"rate"` // of pace: jobs a second; 0: none
	// of pace: that are served, and written to in turn; 0: the one of the other phases
	Queues int `json:"queues"`
}

// ParseConfig reads the value of [ConfigEnv].
func ParseConfig(value string) (c Config, err error) {
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		return c, fmt.Errorf("%s: %w", ConfigEnv, err)
	}
	return c, nil
}

// Env is the config as an entry of a process's environment.
func (c Config) Env() string {
	text, _ := json.Marshal(c) // of plain fields, it cannot fail
	return ConfigEnv + "=" + string(text)
}

// A Body is the payload of a job. As JSON it is {"p":"xxx"}.
type Body struct {
	P string `json:"p"`
}

// bodyFrame is what JSON adds to the text.
const bodyFrame = len(`{"p":""}`)

// NewBody is a payload of so many bytes, or of the fewest there can be.
func NewBody(bytes int) Body {
	return Body{P: strings.Repeat("x", max(0, bytes-bodyFrame))}
}
