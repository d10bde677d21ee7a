// Package scope makes the tracers and meters of txwork. Each names its package, the module's version and the version of
// the semantic conventions that it follows.
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

// Version is the version of the module in this program, or empty if the build does not contain it.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versionIn(info)
})

// versionIn finds the module as the main module or among the dependencies.
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

// Tracer returns a provider's tracer for a package of txwork.
func Tracer(p trace.TracerProvider, pkg string) trace.Tracer {
	return p.Tracer(module+"/"+pkg, trace.WithInstrumentationVersion(Version()), trace.WithSchemaURL(SchemaURL))
}

// Meter returns a provider's meter for a package of txwork.
func Meter(p metric.MeterProvider, pkg string) metric.Meter {
	return p.Meter(module+"/"+pkg, metric.WithInstrumentationVersion(Version()), metric.WithSchemaURL(SchemaURL))
}
