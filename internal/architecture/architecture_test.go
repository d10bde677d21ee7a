// Package architecture checks the rules of docs/architecture.md: which package may import which.
package architecture_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/txwork/txwork/"

// mayImport lists, for each public package and for what operators use, the packages of this repository that it may
// depend on, directly or not.
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
	"workqueue/periodic":  {"workqueue", "workqueue/validate", "schedule"},
	"schedule":            nil,
	"outbox":              append([]string{"outbox/internal/log"}, below...),
	"outbox/internal/log": below,
	"outbox/outboxhttp":   append([]string{"outbox", "outbox/internal/log", "internal/httppost"}, below...),
	"inbox":               below,
	"inbox/inboxhttp":     append([]string{"inbox", "webhook"}, below...),
	"webhook":             {"workqueue", "workqueue/validate"},
	"timers":              below,
	"timers/alarms":       append([]string{"timers", "internal/httppost", "webhook"}, below...),
	"jobs":                below,
	"reaper":              {"workqueue", "workqueue/validate", "internal/survey"},
	"service":             {"workqueue", "workqueue/validate", "reaper", "internal/survey"},
	"migrations":          {"workqueue", "workqueue/validate"},
	"internal/operate":    {"workqueue", "workqueue/validate", "internal/survey"},
	// The doctor knows alarms, and pages change the queues of jobs.
	"webui": append([]string{"jobs", "timers", "timers/alarms", "webhook", "reaper", "migrations", "internal/httppost",
		"internal/operate", "internal/survey", "internal/doctor"}, below...),
}

// below is what a domain package may depend on. Code that two domains need lives there.
var below = []string{"internal/input", "internal/payload", "workqueue", "workqueue/validate",
	"workqueue/keyed", "workqueue/join", "workqueue/topics", "workqueue/codec", "workqueue/periodic", "schedule"}

// leaves are packages that any package may depend on. They depend on no package of this repository but each other.
var leaves = []string{"internal/contain", "internal/header", "internal/history", "internal/httpserve", "internal/mark",
	"internal/netlimit", "internal/outage",
	"internal/postgres", "internal/scope", "internal/sqltext", "internal/zones", "workqueue/dispatch",
	"workqueue/metrics"}

// application packages end up in users' programs.
var application = []string{"workqueue", "outbox", "inbox", "timers", "timers/alarms", "jobs", "reaper", "service",
	"inbox/inboxhttp", "outbox/outboxhttp"}

// keptOut are packages that application packages must not depend on, because they would burden all users' module graphs
// for the benefit of few.
var keptOut = []string{
	"github.com/pressly/goose", "go.opentelemetry.io/otel/sdk", "github.com/jmoiron/sqlx", "github.com/spf13/cobra",
	"github.com/lib/pq", "github.com/xi2/xz", "go.uber.org/goleak", "pgregory.net/rapid", "testing",
}

func TestOurImportsPointOneWay(t *testing.T) {
	for _, leaf := range leaves {
		dependsOn(t, leaf, nil)
	}
	for pkg, allowed := range mayImport {
		dependsOn(t, pkg, allowed)
	}
}

// rooms are the internal packages of the core, with what each may import of this repository. Only the core and the
// rooms themselves may import them, and those of sqlRooms also the packages whose SQL has a part in the core's.
var rooms = map[string][]string{
	"workqueue/internal/fault": {"internal/contain", "internal/outage", "internal/postgres"},
	"workqueue/internal/flow":  {},
	"workqueue/internal/conn":  {"internal/postgres", "workqueue/internal/fault"},
	"workqueue/internal/telemetry": {"internal/contain", "internal/header", "internal/scope", "workqueue/metrics",
		"workqueue/internal/fault"},

	"workqueue/internal/announce": {},
	"workqueue/internal/aside":    {},
	"workqueue/internal/keys":     {"workqueue/internal/aside"},
}

// sqlRooms have SQL, which the triggers and folds of these packages contain.
var sqlRooms = map[string][]string{
	"workqueue/internal/announce": {"workqueue/keyed", "workqueue/join"},
	"workqueue/internal/aside":    {"workqueue/keyed", "workqueue/join"},
	"workqueue/internal/keys":     {"workqueue/keyed"},
}

func TestRoomsOfTheCore(t *testing.T) {
	found := map[string]bool{}
	for pkg, imports := range importsOfAll(t) {
		allowed, isRoom := rooms[pkg]
		if isRoom {
			found[pkg] = true
			if _, err := os.Stat(filepath.Join(root, pkg, "doc.go")); err != nil {
				t.Errorf("%s has no doc.go: say in one what the package is for, who may import it and what it never does",
					pkg)
			}
		} else if isInternal(pkg) {
			t.Errorf("%s is unknown: add it to rooms in this test, with what it may import, and to docs/architecture.md",
				pkg)
		}
		for _, imported := range imports {
			switch {
			case isRoom && !slices.Contains(allowed, imported):
				t.Errorf("%s imports %s, it may import %v only: move what both need into a package below both, or pass "+
					"it as an argument", pkg, imported, allowed)
			case isInternal(imported) && pkg != "workqueue" && !isRoom && !slices.Contains(sqlRooms[imported], pkg):
				t.Errorf("%s imports %s, which is the core's own: use what workqueue exports", pkg, imported)
			}
		}
	}
	for room := range rooms {
		if !found[room] {
			t.Errorf("%s does not exist: remove it from rooms in this test", room)
		}
	}
}

func isInternal(pkg string) bool { return strings.HasPrefix(pkg, "workqueue/internal/") }

// importsOfAll returns what each package of this module imports from this repository, tests aside.
func importsOfAll(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		var ours []string
		for _, path := range strings.Fields(line) {
			if pkg, is := strings.CutPrefix(path, module); is {
				ours = append(ours, pkg)
			}
		}
		if len(ours) > 0 {
			all[ours[0]] = ours[1:]
		}
	}
	return all
}

// dependsOn checks that a package depends on no package of this repository but the allowed ones and the leaves.
func dependsOn(t *testing.T, pkg string, allowed []string) {
	t.Helper()
	for _, dep := range dependencies(t, pkg) {
		ours, found := strings.CutPrefix(dep, module)
		if !found || ours == pkg || slices.Contains(leaves, ours) || rooms[ours] != nil { // see TestRoomsOfTheCore
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

// Whoever imports one package has the library's go.mod in the module graph: it requires nothing that only the command
// line needs, which has a module of its own.
func TestTheLibraryHasNoDependencyOfTheCommandLine(t *testing.T) {
	required := func(file string) []string {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v`).FindAllSubmatch(text, -1) {
			paths = append(paths, string(m[1]))
		}
		return paths
	}
	library, command := required("go.mod"), required("cmd/txwork/go.mod")
	for _, path := range []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/goccy/go-yaml",
		"github.com/schollz/progressbar/v3", "github.com/rivo/uniseg", "golang.org/x/term"} {
		if !slices.Contains(command, path) {
			t.Errorf("cmd/txwork does not require %s: take it off this list", path)
		}
		if slices.Contains(library, path) {
			t.Errorf("the library requires %s: move what needs it to cmd/txwork/internal", path)
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
