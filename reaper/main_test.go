package reaper_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/sdktest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(processURLEnv); url != "" {
		sdktest.Install()
		reaperProcess(url)
		return
	}
	goleak.VerifyTestMain(sdktest.Under(m))
}
