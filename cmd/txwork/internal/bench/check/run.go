package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// absentError says that a program does not have a workload, or one of its flags: txwork then exits with 2.
type absentError struct{ says string }

func (e *absentError) Error() string { return e.says }

// lostError says that a run lost jobs.
type lostError struct{ jobs float64 }

func (e *lostError) Error() string { return fmt.Sprintf("%.0f jobs were lost", e.jobs) }

// stopLimit is how long a run may take to remove its server after an interruption.
const stopLimit = 40 * time.Second

// once runs a workload and returns the numbers of its result by their paths.
func (s side) once(ctx context.Context, c cell) (map[string]float64, error) {
	cmd := exec.CommandContext(ctx, s.binary, append(append([]string{"bench"}, c.args...), "--json")...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ownGroup(cmd)
	cmd.WaitDelay = stopLimit
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	numbers, err := numbersOf(stdout.Bytes())
	if err == nil && numbers["lost"] != 0 {
		return nil, &lostError{numbers["lost"]}
	}
	if runErr == nil {
		return numbers, err
	}
	var exit *exec.ExitError
	if errors.As(runErr, &exit) && exit.ExitCode() == exitUsage {
		return nil, &absentError{lastLine(stderr.Bytes())}
	}
	return nil, fmt.Errorf("%w: %s", runErr, lastLine(stderr.Bytes()))
}

// numbersOf reads the object on the last line.
func numbersOf(stdout []byte) (map[string]float64, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(lastLine(stdout)), &object); err != nil {
		return nil, fmt.Errorf("the result is no JSON object: %w", err)
	}
	numbers := map[string]float64{}
	collect(numbers, "", object)
	return numbers, nil
}

func collect(into map[string]float64, prefix string, object map[string]any) {
	for key, value := range object {
		switch value := value.(type) {
		case float64:
			into[prefix+key] = value
		case map[string]any:
			collect(into, prefix+key+".", value)
		}
	}
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
