package docs

import (
	"fmt"
	"os"
	"testing"
)

// checkedVariable has these tests run.
const checkedVariable = "TXWORK_DOCS"

// TestMain runs these tests only where the documentation is checked: whoever renames a test or an identifier should be
// told by .ci/docs, and not by every go test ./... in between.
func TestMain(m *testing.M) {
	if os.Getenv(checkedVariable) == "" {
		fmt.Println("skipped: run .ci/docs, or set TXWORK_DOCS=1")
		return
	}
	os.Exit(m.Run())
}
