//go:build unix

package torture

import (
	"os"
	"strings"
	"testing"
)

// The current harness has to build with the older library: otherwise the fault would be skipped in every run without
// being noticed.
func TestOldRevisionBuilds(t *testing.T) {
	t.Parallel()
	if _, err := checkout(); err != nil {
		t.Skip(err)
	}
	u := &rollingUpgrade{}
	if err := u.configure(&lab{dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(u.program); err != nil {
		t.Error(err)
	}
}

func TestNoOldRevision(t *testing.T) {
	t.Parallel()
	if _, err := checkout(); err != nil {
		t.Skip(err)
	}
	u := &rollingUpgrade{}
	err := u.configure(&lab{dir: t.TempDir(), options: Options{OldRevision: "no-such-revision"}})
	if err == nil || strings.HasSuffix(err.Error(), "exit status 128") { // the message is ours, not git's
		t.Errorf("the error is %v", err)
	}
}
