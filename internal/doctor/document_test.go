package doctor_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/page"
)

var update = flag.Bool("update", false, "write the tables of docs/doctor.md and docs/doctor-conditions.md anew")

const document = "../../docs/doctor.md"

// The page lists the findings as the code does.
func TestTheDocumentedFindings(t *testing.T) {
	t.Parallel()
	want := findingsTable()
	if *update {
		must(t, page.Write(document, "findings", want))
	}
	current, err := page.Holds(document, "findings", want)
	must(t, err)
	if !current {
		t.Error("the table does not match the code: go test ./internal/doctor -run Documented -update")
	}
}

func findingsTable() string {
	var b strings.Builder
	b.WriteString("| finding | from | impact | fix | `--fix` |\n|---|---|---|---|---|\n")
	for _, k := range doctor.Kinds() {
		fix := ""
		if k.Fixes {
			fix = "yes"
		}
		fmt.Fprintf(&b, "| **`%s`**, %s: %s | %s | %s | %s | %s |\n", k.Code, k.Severity, k.Title, k.From, k.Meaning,
			k.Remedy, fix)
	}
	return b.String()
}
