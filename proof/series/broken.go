//go:build unix

package series

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// A testEvent is a line of the output of `go test -json`.
type testEvent struct {
	Action  string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// torturesBroken runs the test of the deliberately broken builds.
func (r *runner) torturesBroken(ctx context.Context) ([]brokenBuild, error) {
	cmd, closeLog, err := r.command(ctx, "broken", "go", "test", "./proof/torture", "-run", "^TestBrokenBuilds$",
		"-broken", "-json", "-count", "1", "-timeout", "1h")
	if err != nil {
		return nil, err
	}
	defer closeLog()
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, cmd.Stderr)
	ran := cmd.Run()
	builds, err := readBuilds(&out)
	if err == nil && !complete(builds, ran) {
		err = errors.Join(ran, errors.New("not all builds were tortured, see broken.log"))
	}
	return builds, err
}

// complete tells whether the test ran to its end, so that a failure can only come from a build.
func complete(builds []brokenBuild, ran error) bool {
	missed := func(b brokenBuild) bool { return !b.Found }
	return len(builds) > 0 && (ran == nil || slices.ContainsFunc(builds, missed))
}

// readBuilds returns the subtests in the events, in the order in which they ended.
func readBuilds(events io.Reader) (builds []brokenBuild, err error) {
	details := map[string]string{}
	decoder := json.NewDecoder(events)
	for {
		var e testEvent
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return builds, nil
		} else if err != nil {
			return nil, err
		}
		_, name, sub := strings.Cut(e.Test, "/")
		if !sub {
			continue
		}
		switch e.Action {
		case "output":
			if _, said, logged := strings.Cut(e.Output, "_test.go:"); logged {
				_, said, _ = strings.Cut(said, ": ")
				details[name] = strings.TrimSpace(said)
			}
		case "pass", "fail":
			took := time.Duration(e.Elapsed * float64(time.Second))
			readable := strings.ReplaceAll(name, "_", " ")
			builds = append(builds, brokenBuild{Name: readable, Found: e.Action == "pass", Detail: details[name],
				Took: took})
		}
	}
}
