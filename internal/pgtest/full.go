package pgtest

import "os"

// FullEnv is set where tests run at full size: in the gate, once for each test, and for mutants.
const FullEnv = "TXWORK_TEST_FULL"

// Full tells whether tests run at full size.
func Full() bool { return os.Getenv(FullEnv) != "" }

// Size is how much of something a test does: a little in every run of the tests, and all of it at full size. The small
// size shows the same, with less certainty.
func Size(small, full int) int {
	if Full() {
		return full
	}
	return small
}
