//go:build unix

package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A line is a line of a journal.
type line struct {
	What    string `json:"w"`
	Run     int64  `json:"r,omitempty"` // that a start and an end have in common
	Table   string `json:"t,omitempty"`
	Name    string `json:"n,omitempty"`
	App     string `json:"a,omitempty"`
	Attempt int    `json:"k,omitempty"`
	Mode    string `json:"m,omitempty"`
	Result  string `json:"e,omitempty"`
	Told    string `json:"p,omitempty"` // whose payload a handler was given, where it is another's
	Key     string `json:"y,omitempty"` // by which a row is to be ordered
	Due     int64  `json:"d,omitempty"` // when an attempt became due, in nanoseconds; 0 if its handler does not know
	At      int64  `json:"at"`          // nanoseconds
	Limit   int    `json:"l,omitempty"`
	Changed int    `json:"c,omitempty"`
}

const (
	lineStart   = "start"   // a handler begins
	lineEnd     = "end"     // it has ended
	lineClaim   = "claim"   // a process was given rows
	lineIntent  = "intent"  // a producer is about to commit
	lineOutcome = "outcome" // it knows whether it has
	lineAwake   = "awake"   // a process became announcer
	lineBroke   = "broke"   // the session of an announcer failed
)

const journalSuffix = ".journal"

// A journal is a file to which one process appends. It is safe for concurrent use.
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file}, err
}

// append writes all lines in one write, so that a process that is killed leaves whole lines behind. Without a journal
// the run proves nothing, so an error ends the process.
func (j *journal) append(lines ...line) {
	var encoded bytes.Buffer
	var err error
	encoder := json.NewEncoder(&encoded)
	for _, l := range lines {
		l.At = time.Now().UnixNano()
		err = errors.Join(err, encoder.Encode(l))
	}
	if err == nil {
		_, err = j.file.Write(encoded.Bytes())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(1)
	}
}

func (j *journal) close() error { return j.file.Close() }

// readJournals reads all journals of a run. The last line of a process that died may be incomplete; any other
// incomplete line is an error.
func readJournals(dir string, each func(line)) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"+journalSuffix))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := readJournal(file, each); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func readJournal(path string, each func(line)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	var torn error
	for lines.Scan() {
		if torn != nil {
			return torn
		}
		var l line
		if torn = json.Unmarshal(lines.Bytes(), &l); torn == nil {
			each(l)
		}
	}
	return lines.Err()
}
