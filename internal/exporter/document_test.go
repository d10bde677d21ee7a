package exporter_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/exporter"
	"github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue/metrics"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md anew")

const document = "../../docs/metrics.md"

// The page lists the metrics as the code does. TestTheListOfMetrics of workqueue and TestTheListOfGauges check that
// they are what is reported.
func TestTheDocumentedMetrics(t *testing.T) {
	t.Parallel()
	want := metricsTable()
	if *update {
		if err := page.Write(document, "metrics", want); err != nil {
			t.Fatal(err)
		}
	}
	current, err := page.Holds(document, "metrics", want)
	if err != nil {
		t.Fatal(err)
	}
	if !current {
		t.Error("the table does not match the code: go test ./internal/exporter -run Documented -update")
	}
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | in Prometheus | kind, unit | attributes | meaning |\n|---|---|---|---|---|\n")
	for _, m := range slices.Concat(metrics.Workers(), reaper.Gauges()) {
		attributes := make([]string, len(m.Attributes))
		for i, a := range m.Attributes {
			if attributes[i] = "`" + a + "`"; a == metrics.RowLabels {
				attributes[i] = "row labels"
			}
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", m.Name, exporter.Name(m), strings.TrimSuffix(m.Instrument+
			", "+m.Unit, ", "), strings.Join(attributes, ", "), m.Meaning)
	}
	return b.String()
}
