package reaper_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(processURLEnv); url != "" {
		reaperProcess(url)
		return
	}
	goleak.VerifyTestMain(m)
}
