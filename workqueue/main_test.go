package workqueue_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/sdktest"
)

// TestMain lets the test binary stand in for a worker process (see startChild), and fails the run if a goroutine is
// left over at its end.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		sdktest.Install()
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(sdktest.Under(m))
}
