// Package architecture holds the rules of docs/architecture.md: who may import whom.
package architecture_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/txwork/txwork/"

// mayImport lists, for each public package, the packages of ours that it may depend on, directly or not.
var mayImport = map[string][]string{
	"workqueue":              nil,
	"workqueue/gate":         {"workqueue", "internal/sqltext"},
	"workqueue/join":         {"workqueue", "internal/sqltext"},
	"workqueue/topics":       {"workqueue", "internal/input"},
	"workqueue/codec":        nil,
	"workqueue/codec/aesgcm": {"workqueue/codec"},
	"txworktest":             {"workqueue", "migrations", "internal/pgschema", "internal/localpg"},
	"workqueue/periodic":     {"workqueue", "schedule", "internal/sqltext"},
	"schedule":               nil,
	"outbox":                 below,
	"outbox/outboxhttp":      append([]string{"outbox", "internal/httppost"}, below...),
	"inbox":                  below,
	"inbox/inboxhttp":        append([]string{"inbox"}, below...),
	"timers":                 below,
	"timers/alarms":          append([]string{"timers", "internal/httppost"}, below...),
	"jobs":                   below,
	"reaper":                 {"workqueue", "internal/survey", "internal/sqltext"},
	"service":                {"workqueue", "reaper", "internal/survey", "internal/sqltext"},
	"migrations":             {"workqueue"},
}

// below is what a domain package may depend on: what two of them need lives there.
var below = []string{"internal/input", "internal/payload", "internal/sqltext", "workqueue", "workqueue/gate", "workqueue/join", "workqueue/topics", "workqueue/codec", "workqueue/periodic", "schedule"}

// application packages are those that end up in users' programs by way of their own imports.
var application = []string{"workqueue", "outbox", "inbox", "timers", "timers/alarms", "jobs", "reaper", "service", "inbox/inboxhttp", "outbox/outboxhttp"}

// kept out of application packages: what would reach everybody's module graph for the sake of few.
var keptOut = []string{
	"github.com/pressly/goose", "go.opentelemetry.io/otel/sdk", "github.com/jmoiron/sqlx", "github.com/spf13/cobra",
	"github.com/lib/pq", "github.com/fergusstrange", "go.uber.org/goleak", "pgregory.net/rapid", "testing",
}

func TestOurImportsPointOneWay(t *testing.T) {
	for pkg, allowed := range mayImport {
		for _, dep := range dependencies(t, pkg) {
			ours, found := strings.CutPrefix(dep, module)
			if !found || ours == pkg {
				continue
			}
			if !slices.Contains(allowed, ours) {
				t.Errorf("%s depends on %s, it may depend on %v only", pkg, ours, allowed)
			}
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
