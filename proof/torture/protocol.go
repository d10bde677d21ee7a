//go:build unix

package torture

import "time"

// The run and a member of its crew exchange lines of JSON over the member's standard input and output. The first line
// is a setup; after that the run sends orders and the member sends reports. When its standard input ends, the member
// knows that the run is gone.

// A setup is what a member needs to know. It is not passed in the arguments, which other users can see, because a
// database URL may contain a password.
type setup struct {
	// tells this process from all others of the run: its application_name, too
	App       string `json:"app"`
	Role      string `json:"role"`
	URL       string `json:"url"`
	ListenURL string `json:"listen_url,omitempty"` // where URL is that of a pooler
	Schema    string `json:"schema"`
	Journal   string `json:"journal"`
	Seed      uint64 `json:"seed"`
	PoolSize  int32  `json:"pool_size"`
	// how often workers look for rows of which nobody tells them
	Poll time.Duration `json:"poll"`
	// the process has two workers of everything, each with a runtime of its own
	Twice       bool              `json:"twice,omitempty"`
	Parameters  map[string]string `json:"parameters,omitempty"` // of its sessions
	NoListen    bool              `json:"no_listen,omitempty"`
	LoseReplies bool              `json:"lose_replies,omitempty"` // to COMMIT, now and then
	// what the process is in the middle of when a session of it freezes
	Freeze    string `json:"freeze,omitempty"`
	Batches   bool   `json:"batches,omitempty"`    // messages of the outbox are handled in batches, so in runs of a key
	HoldConns bool   `json:"hold_conns,omitempty"` // handlers hold a connection of the pool while they work
}

const (
	roleWorker    = "worker"
	roleSQLWorker = "sql worker" // uses the SQL functions only
	roleReaper    = "reaper"
	roleInstaller = "installer" // makes the tables, and ends
)

// An order arms a point and disarms all others: the member sends itself the signal when it next reaches the point.
type order struct {
	Point  string `json:"point"`
	Signal string `json:"signal"`
}

// Points of a worker.
const (
	pointClaimed  = "claimed"  // a claim has committed, and no handler has begun
	pointHandler  = "handler"  // in the middle of a handler
	pointSettling = "settling" // everything but the settle is done
	pointSettled  = "settled"  // a settle has committed

	pointNow  = "now"  // wherever it is
	pointThaw = "thaw" // where the frozen session thaws
)

// Points of an announcer: each is a statement that it has just sent.
const (
	pointTakes     = "takes the lock"
	pointTakesOver = "takes over"
	pointLooks     = "looks for rows"
	pointLooksNote = "looks for notes"
	pointSamples   = "asks who is silent"
	pointAnnounces = "announces"
	pointReleases  = "releases the lock"
	pointFades     = "announces for who is still silent"
	pointLast      = "announces for the last time"
)

// pointNone disarms all points.
const pointNone = "none"

var points = []string{pointClaimed, pointHandler, pointSettling, pointSettled}

const (
	signalKill = "kill"
	signalStop = "stop"
	signalTerm = "term"
)

// A report is what a member tells the run.
type report struct {
	What      string `json:"what"`
	Point     string `json:"point,omitempty"`
	Statement string `json:"statement,omitempty"`
}

const (
	isReady   = "ready"   // it reacts to SIGTERM from here on
	isServing = "serving" // a worker has asked all tables for rows
	isReached = "reached" // a point was reached, and the signal is sent
	isFrozen  = "frozen"  // a session froze after a statement
)
