package exporter

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/workqueue/metrics"
)

// Name is the Prometheus name of a metric, by those of OpenTelemetry's rules that every version of Prometheus
// understands. For a histogram it is the prefix of its series' names.
func Name(m metrics.Metric) string {
	name := Label(m.Name)
	name += unitSuffixes[m.Unit]
	if m.Instrument == "counter" {
		name += "_total"
	}
	return name
}

var unitSuffixes = map[string]string{"s": "_seconds", "By": "_bytes"}

// Label is the Prometheus name of an attribute.
func Label(key string) string { return strings.ReplaceAll(key, ".", "_") }

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	valueEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// writeGauge writes a gauge in version 0.0.4 of Prometheus' text format.
func writeGauge(b *bytes.Buffer, m metricdata.Metrics, points []metricdata.DataPoint[float64]) {
	name := Name(metrics.Metric{Name: m.Name, Unit: m.Unit})
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, helpEscapes.Replace(m.Description), name)
	lines := make([]string, len(points))
	for i, p := range points {
		lines[i] = name + labelsText(p.Attributes) + " " + strconv.FormatFloat(p.Value, 'g', -1, 64) + "\n"
	}
	slices.Sort(lines)
	for _, line := range lines {
		b.WriteString(line)
	}
}

func labelsText(set attribute.Set) string {
	if set.Len() == 0 {
		return ""
	}
	labels := make([]string, 0, set.Len())
	for _, a := range set.ToSlice() {
		labels = append(labels, fmt.Sprintf(`%s="%s"`, Label(string(a.Key)),
			valueEscapes.Replace(strings.ToValidUTF8(a.Value.AsString(), "\uFFFD"))))
	}
	return "{" + strings.Join(labels, ",") + "}"
}
