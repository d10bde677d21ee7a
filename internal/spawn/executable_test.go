package spawn_test

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/txwork/txwork/internal/spawn"
)

func TestWhatIsWrittenMayBeRunAtOnceBesideOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 8 {
		file := filepath.Join(dir, string(rune('a'+i)))
		all.Go(func() {
			for range 25 {
				if err := spawn.WriteExecutable(file, []byte("#!/bin/sh\n")); err != nil {
					t.Error(err)
					return
				}
				if err := exec.Command(file).Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}
