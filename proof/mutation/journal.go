package mutation

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// A journal keeps the results so far, one JSON object in each line, so that an interrupted run can be resumed. It also
// knows which suite killed a mutant the last time, which is then tried first.
type journal struct {
	mu   sync.Mutex
	file *os.File // nil if no journal was asked for
	last map[string]result
}

func openJournal(name string) (*journal, error) {
	j := &journal{last: map[string]result{}}
	if name == "" {
		return j, nil
	}
	if err := j.read(name); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	j.file = file
	return j, err
}

// read loads the results in the file. A last line that was cut off is ignored.
func (j *journal) read(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err == nil && r.Mutant != "" {
			j.last[r.Mutant] = r
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (j *journal) add(r result) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last[r.Mutant] = r
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.file, "\n%s", line) // the newline ends a line that was cut off
	return err
}

// killed returns the result of a mutant that need not be tried again. Survivors are tried again, because there may be a
// test for them now.
func (j *journal) killed(m mutant) (result, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.last[m.Name]
	return r, ok && r.Killer != "" && !r.Once && r.Print == m.print
}

// hint returns the suite that killed the mutant of this name the last time.
func (j *journal) hint(m mutant) (suite, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.last[m.Name]
	return suite{dir: r.Dir, run: alone(r.Killer)}, alone(r.Killer) != "" && !r.TimedOut
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
