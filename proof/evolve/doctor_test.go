//go:build unix

package evolve_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
)

// The doctor of a new release calls its pending migrations a warning while its programs work with the tables as they
// are, and critical when they do not. Its exit code says the same.
func TestTheDoctorKnowsWhichMigrationsAreNeeded(t *testing.T) {
	t.Parallel()
	patient, demanding := doctorOf(t, 1), doctorOf(t, 3) // the index raises the table to 3
	s := newStage(t)
	for _, step := range []struct {
		version            int
		patient, demanding doctor.Severity
	}{
		{today, doctor.Warning, doctor.Critical},
		{column, doctor.Warning, doctor.Critical},
		{index, doctor.Warning, doctor.Warning},
		{contract, "", ""},
	} {
		if out, code := s.txwork(patient, "migrate", "up", "--domain", "outbox", "--to-version",
			strconv.Itoa(step.version)); code != 0 {
			t.Fatalf("%s", out)
		}
		for program, want := range map[string]doctor.Severity{patient: step.patient, demanding: step.demanding} {
			if got := s.pending(program); got != want {
				t.Errorf("at version %d, %q is reported, want %q", step.version, got, want)
			}
		}
	}
}

// txwork runs a command, and returns what it prints and its exit code.
func (s *stage) txwork(program string, args ...string) (out []byte, code int) {
	s.t.Helper()
	args = append(args, "--schema", s.db.Schema, "--database-url", s.db.URL)
	out, err := exec.CommandContext(s.t.Context(), program, args...).Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return append(out, exit.Stderr...), exit.ExitCode()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return out, 0
}

// pending returns the severity with which the doctor of a release reports the migrations that are pending; empty if it
// finds nothing.
func (s *stage) pending(program string) doctor.Severity {
	s.t.Helper()
	args := []string{"doctor", "--json", "--timeout", "2m", "--statement-timeout", "1m"}
	for _, k := range doctor.Kinds() {
		if k.Code != "schema" {
			args = append(args, "--ignore", k.Code)
		}
	}
	out, code := s.txwork(program, args...)
	var r struct {
		Complete bool
		Findings []struct {
			Severity doctor.Severity
			Title    string
		}
	}
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&r); err != nil || !r.Complete ||
		len(r.Findings) > 1 {
		s.t.Fatalf("%v: %s", err, out)
	}
	if len(r.Findings) == 0 {
		if code != 0 {
			s.t.Errorf("it exits with %d", code)
		}
		return ""
	}
	f := r.Findings[0]
	if want := map[doctor.Severity]int{doctor.Warning: 3, doctor.Critical: 4}[f.Severity]; code != want ||
		!strings.Contains(f.Title, "pending: run `txwork migrate up") {
		s.t.Errorf("it exits with %d, want %d: %s", code, want, f.Title)
	}
	return f.Severity
}
