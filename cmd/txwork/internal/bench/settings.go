package bench

import (
	"context"
	"runtime"
)

// Settings are the conditions that figures depend on.
type Settings struct {
	ServerVersion     string `json:"server_version"`     // version of PostgreSQL
	Fsync             string `json:"fsync"`              // on or off
	SynchronousCommit string `json:"synchronous_commit"` // setting of the server
	Private           bool   `json:"private_server"`     // a private server on this machine
	Cores             int    `json:"cores"`              // number of cores of this machine
}

func (l *lab) settings(ctx context.Context) (Settings, error) {
	s := Settings{Private: l.server != nil, Cores: runtime.NumCPU()}
	const query = "SELECT current_setting('server_version'), current_setting('fsync'), " +
		"current_setting('synchronous_commit')"
	return s, l.meter.query(ctx, []any{&s.ServerVersion, &s.Fsync, &s.SynchronousCommit}, query)
}
