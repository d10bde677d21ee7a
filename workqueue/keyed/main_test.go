package keyed_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }
