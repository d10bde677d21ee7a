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

// A Config says what a phase is to do.
type Config struct {
	DatabaseURL  string  `json:"database_url"`
	Profile      string  `json:"profile"`       // one of the profiles that the peer describes
	Deleted      bool    `json:"deleted"`       // done jobs are deleted; else they are kept
	Jobs         int     `json:"jobs"`          // number of jobs in fill, work and latency
	PayloadBytes int     `json:"payload_bytes"` // of each job
	Batch        int     `json:"batch"`         // jobs in one call and transaction of fill
	Connections  int     `json:"connections"`   // clients in single and pace, and the size of pools in other phases
	Seconds      float64 `json:"seconds"`       // duration of single and pace
	Concurrency  int     `json:"concurrency"`   // handlers at once; 0: as the profile says
	// number of processes that do Jobs together in work, including this one; 0 if it is alone
	Processes int     `json:"processes"`
	Rate      float64 `json:"rate"` // jobs a second in pace; 0: none
	// number of queues that pace serves and writes to in turn; 0: the queue of the other phases
	Queues int `json:"queues"`
}

// ParseConfig reads the value of [ConfigEnv].
func ParseConfig(value string) (c Config, err error) {
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		return c, fmt.Errorf("%s: %w", ConfigEnv, err)
	}
	return c, nil
}

// Env returns the config as an entry of a process's environment.
func (c Config) Env() string {
	text, _ := json.Marshal(c) // cannot fail for such fields
	return ConfigEnv + "=" + string(text)
}

// A Body is the payload of a job. As JSON it is {"p":"xxx"}.
type Body struct {
	P string `json:"p"`
}

// bodyFrame is the number of bytes that JSON adds to the text.
const bodyFrame = len(`{"p":""}`)

// NewBody returns a payload of the given number of bytes, or the smallest possible one.
func NewBody(bytes int) Body {
	return Body{P: strings.Repeat("x", max(0, bytes-bodyFrame))}
}
