package pgtest

import "os"

// FullEnv is set when tests run at full size: before a release, each week, and for mutants.
const FullEnv = "TXWORK_TEST_FULL"

// Full tells whether tests run at full size.
func Full() bool { return os.Getenv(FullEnv) != "" }

// Size returns how much of something a test does: small in ordinary runs, and full at full size. The small size shows
// the same with less certainty.
func Size(small, full int) int {
	if Full() {
		return full
	}
	return small
}
