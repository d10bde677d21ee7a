package scope

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsTheModules(t *testing.T) {
	dependency := func(replace *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main: debug.Module{Path: "example.com/shop", Version: "v9.9.9"},
			Deps: []*debug.Module{{Path: "example.com/other", Version: "v8.8.8"}, {Path: module, Version: "v1.2.3",
				Replace: replace}},
		}
	}
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a program that uses it": {dependency(nil), "v1.2.3"},
		"a program with a fork": {dependency(&debug.Module{Path: "example.com/fork", Version: "v1.2.4"}),
			"v1.2.4"},
		"a program with a local copy": {dependency(&debug.Module{Path: "../txwork"}), ""},
		"its own command": {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.5.0"}},
			"v1.5.0"},
		"a module that lives beside it": {&debug.BuildInfo{Main: debug.Module{Path: module + "/bench",
			Version: "(devel)"}}, "(devel)"},
		"a name that begins like it": {&debug.BuildInfo{Main: debug.Module{Path: module + "er", Version: "v3.0.0"}},
			""},
	} {
		if got := versionIn(test.info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
