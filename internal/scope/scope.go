// Package scope makes the tracers and meters of txwork: each names its package, the module's version and the semantic
// conventions that its names are of.
package scope

import (
	"runtime/debug"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const module = "github.com/txwork/txwork"

// SchemaURL names the version of the semantic conventions.
const SchemaURL = semconv.SchemaURL

// Version is that of the module in this program; empty where the program was built without saying.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versionIn(info)
})

// versionIn finds the module as the program's own or among those that it depends on.
func versionIn(info *debug.BuildInfo) string {
	if path := info.Main.Path; path == module || strings.HasPrefix(path, module+"/") {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path != module {
			continue
		}
		if dep.Replace != nil {
			return dep.Replace.Version
		}
		return dep.Version
	}
	return ""
}

// Tracer is a provider's for a package of txwork.
func Tracer(p trace.TracerProvider, pkg string) trace.Tracer {
	return p.Tracer(module+"/"+pkg, trace.WithInstrumentationVersion(Version()), trace.WithSchemaURL(SchemaURL))
}

// Meter is a provider's for a package of txwork.
func Meter(p metric.MeterProvider, pkg string) metric.Meter {
	return p.Meter(module+"/"+pkg, metric.WithInstrumentationVersion(Version()), metric.WithSchemaURL(SchemaURL))
}
