//go:build unix

package workerfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/spawn"
)

// What cannot be started is found before it is, wherever it stands in the file.
func TestProgramsThatAreMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"runs": "#!/bin/sh\n", "env": "#!/usr/bin/env sh\n", "env-flags": "#!/usr/bin/env -S sh\n",
		"nowhere": "#!/no/where/sh\n", "env-nowhere": "#!/usr/bin/env no-such-program\n",
	} {
		if err := spawn.WriteExecutable(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		unknown = ", which is no command of sh and no program in PATH"
		gone    = `exec: "DIR/missing": stat DIR/missing: no such file or directory`
		notIn   = `exec: "no-such-program": executable file not found in $PATH`
	)
	for handler, want := range map[string]string{
		`exec: cat`:                                          "",
		`exec: "  cd / && ls"`:                               "",
		`exec: "if true; then false; fi"`:                    "",
		`exec: "A=b no-such-program"`:                        "", // not looked at
		`exec: "$PROGRAM"`:                                   "",
		`exec: "f() { cat; }; f"`:                            "",
		`exec: DIR/runs`:                                     "",
		`exec: DIR/env --flag`:                               "",
		`exec: DIR/env-flags`:                                "",
		`exec: {command: ./runs, directory: DIR}`:            "",
		`exec: {directory: DIR, command: [./runs, a]}`:       "",
		`exec: {command: [./runs, a], directory: DIR}`:       "",
		`exec: {command: "mine", env: {PATH: DIR}}`:          `.exec.command: begins with "mine"` + unknown,
		`exec: {command: "runs", env: {PATH: DIR}}`:          "",
		`exec: no-such-program --flag`:                       `.exec: begins with "no-such-program"` + unknown,
		`exec: "no-such-program|cat"`:                        `.exec: begins with "no-such-program"`,
		`exec: "cat 'without an end"`:                        `.exec: cannot be read by sh: `,
		`exec: DIR/missing`:                                  `.exec: ` + gone,
		`exec: DIR/plain`:                                    `.exec: exec: "DIR/plain": permission denied`,
		`exec: DIR/nowhere`:                                  `.exec: DIR/nowhere cannot be run: exec: "/no/where/sh": stat`,
		`exec: {command: [DIR/env-nowhere]}`:                 `.exec.command: DIR/env-nowhere cannot be run: ` + notIn,
		`exec: {command: [./missing, a], directory: DIR}`:    `.exec.command: ` + gone,
		`exec: {directory: DIR, command: "./missing; true"}`: `.exec.command: ` + gone,
		`exec: {command: [no-such-program], directory: DIR}`: `.exec.command: ` + notIn,
	} {
		_, err := read("timers: {topics: {t: {" + strings.ReplaceAll(handler, "DIR", dir) + "}}}")
		switch want = strings.ReplaceAll(want, "DIR", dir); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", handler, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "timers.topics.t"+want)):
			t.Errorf("%s: %v, want %s", handler, err, want)
		}
	}
}
