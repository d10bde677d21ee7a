//go:build unix && !linux

package torture

import (
	"context"
	"math/rand/v2"
)

// diskFull needs a tmpfs that can be made smaller while it is in use.
type diskFull struct{ unsupported }

type unsupported struct{ plain }

func (unsupported) configure(*lab) error { return skip("it needs Linux") }

func (unsupported) strike(context.Context, *lab, *rand.Rand) (string, error) { return "", nil }
