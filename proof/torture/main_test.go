//go:build unix

package torture

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// memberEnv makes the test binary a member of a run's crew.
const memberEnv = "TXWORK_TORTURE_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		runCommand()
	}
	if os.Getenv(memberEnv) == "" {
		os.Setenv(memberEnv, "yes") // inherited by the members
		os.Exit(m.Run())
	}
	if err := RunMember(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
