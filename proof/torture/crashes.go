//go:build unix

package torture

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/txwork/txwork/internal/localpg"
)

// A server that ends because one of its processes died says so in one line for each such end. It does not when the
// whole server is stopped or killed.
var diedLine = []byte(" was terminated by signal ")

// checkCrashes fails a run in which PostgreSQL crashed without a strike. Such a crash loses claims, as every crash
// does, but nobody noted when: their handlers look as if they had run without one. The lines around it say what the
// process ran, and what it printed last.
func (l *lab) checkCrashes() {
	var crashes [][]byte
	for _, server := range []*localpg.Server{l.server, l.standby} {
		if server == nil {
			continue
		}
		log, err := os.ReadFile(filepath.Join(server.Dir(), "log"))
		if err != nil {
			l.fail("the log of PostgreSQL cannot be read, so nothing tells whether it crashed: %v", err)
			return
		}
		all := bytes.Split(log, []byte("\n"))
		for i, line := range all {
			if bytes.Contains(line, diedLine) || bytes.Contains(line, []byte("PANIC:")) {
				crashes = append(crashes, bytes.Join(all[max(i-5, 0):min(i+4, len(all))], []byte("\n")))
			}
		}
	}
	if len(crashes) > l.killed {
		l.fail("PostgreSQL crashed by itself, or something outside of the run killed one of its processes; "+
			"strikes are %d of these:\n%s", l.killed, bytes.Join(crashes, []byte("\n...\n")))
	}
}
