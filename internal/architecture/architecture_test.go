// Package architecture checks the rules of docs/architecture.md: which package may import which.
package architecture_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/txwork/txwork/"

// mayImport lists, for each public package, the packages of this repository that it may depend on, directly or not.
var mayImport = map[string][]string{
	"workqueue":              nil,
	"workqueue/dispatch":     nil,
	"workqueue/metrics":      nil,
	"workqueue/validate":     {"workqueue"},
	"workqueue/keyed":        {"workqueue", "workqueue/validate"},
	"workqueue/join":         {"workqueue", "workqueue/validate"},
	"workqueue/topics":       {"workqueue", "workqueue/validate", "internal/input"},
	"workqueue/codec":        nil,
	"workqueue/codec/aesgcm": {"workqueue/codec"},
	"txworktest": {"workqueue", "workqueue/validate", "migrations", "internal/pgschema",
		"internal/localpg"},
	"workqueue/periodic": {"workqueue", "workqueue/validate", "schedule"},
	"schedule":           nil,
	"outbox":             below,
	"outbox/outboxhttp":  append([]string{"outbox", "internal/httppost"}, below...),
	"inbox":              below,
	"inbox/inboxhttp":    append([]string{"inbox", "webhook"}, below...),
	"webhook":            {"workqueue", "workqueue/validate"},
	"timers":             below,
	"timers/alarms":      append([]string{"timers", "internal/httppost", "webhook"}, below...),
	"jobs":               below,
	"reaper":             {"workqueue", "workqueue/validate", "internal/survey"},
	"service":            {"workqueue", "workqueue/validate", "reaper", "internal/survey"},
	"migrations":         {"workqueue", "workqueue/validate"},
}

// below is what a domain package may depend on. Code that two domains need lives there.
var below = []string{"internal/input", "internal/payload", "workqueue", "workqueue/validate",
	"workqueue/keyed", "workqueue/join", "workqueue/topics", "workqueue/codec", "workqueue/periodic", "schedule"}

// leaves are packages that any package may depend on. They depend on no package of this repository but each other.
var leaves = []string{"internal/contain", "internal/header", "internal/mark", "internal/netlimit", "internal/outage",
	"internal/postgres", "internal/scope", "internal/sqltext", "workqueue/dispatch", "workqueue/internal/announce",
	"workqueue/internal/aside", "workqueue/metrics"}

// application packages end up in users' programs.
var application = []string{"workqueue", "outbox", "inbox", "timers", "timers/alarms", "jobs", "reaper", "service",
	"inbox/inboxhttp", "outbox/outboxhttp"}

// keptOut are packages that application packages must not depend on, because they would burden all users' module graphs
// for the benefit of few.
var keptOut = []string{
	"github.com/pressly/goose", "go.opentelemetry.io/otel/sdk", "github.com/jmoiron/sqlx", "github.com/spf13/cobra",
	"github.com/lib/pq", "github.com/fergusstrange", "go.uber.org/goleak", "pgregory.net/rapid", "testing",
}

func TestOurImportsPointOneWay(t *testing.T) {
	for _, leaf := range leaves {
		dependsOn(t, leaf, nil)
	}
	for pkg, allowed := range mayImport {
		dependsOn(t, pkg, allowed)
	}
}

// dependsOn checks that a package depends on no package of this repository but the allowed ones and the leaves.
func dependsOn(t *testing.T, pkg string, allowed []string) {
	t.Helper()
	for _, dep := range dependencies(t, pkg) {
		ours, found := strings.CutPrefix(dep, module)
		if !found || ours == pkg || slices.Contains(leaves, ours) {
			continue
		}
		if !slices.Contains(allowed, ours) {
			t.Errorf("%s depends on %s, it may depend on %v only", pkg, ours, allowed)
		}
	}
}

func TestApplicationPackagesStaySmall(t *testing.T) {
	for _, pkg := range application {
		for _, dep := range dependencies(t, pkg) {
			for _, refused := range keptOut {
				if dep == refused || strings.HasPrefix(dep, refused+"/") {
					t.Errorf("%s depends on %s", pkg, dep)
				}
			}
		}
	}
}

func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}
