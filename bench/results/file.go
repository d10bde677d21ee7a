package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A File stores the results of a run.
type File struct {
	file *os.File
}

// Create creates a file, which must not exist.
func Create(path string, h Header) (*File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	f := &File{file}
	return f, f.write(h)
}

// Append opens a file to add the cells that are missing in it. The conditions must be the same as before.
func Append(path string, h Header) (*File, []Cell, error) {
	before, cells, err := Read(path)
	if err != nil {
		return nil, nil, err
	}
	if before != h {
		return nil, nil, fmt.Errorf("%s was measured under other conditions:\nthere %+v\nnow   %+v", path, before, h)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	return &File{file}, cells, endLine(path, file)
}

// endLine ends a line that an interruption has cut off. Read skips that line.
func endLine(path string, file *os.File) error {
	text, err := os.ReadFile(path)
	if err == nil && !bytes.HasSuffix(text, []byte("\n")) {
		_, err = file.WriteString("\n")
	}
	return err
}

// Add appends a cell.
func (f *File) Add(c Cell) error { return f.write(c) }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

func (f *File) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = f.file.Write(append(line, '\n'))
	return err
}

// ReadRun is Read with a [Run] as its result.
func ReadRun(path string) (Run, error) {
	h, cells, err := Read(path)
	return Run{h, cells}, err
}

// Read reads a file. Of several cells with the same key it returns the last, and it skips a line that an interruption
// has cut off.
func Read(path string) (h Header, cells []Cell, err error) {
	file, err := os.Open(path)
	if err != nil {
		return h, nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return h, nil, errors.Join(fmt.Errorf("%s is empty", path), lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return h, nil, fmt.Errorf("%s: %w", path, err)
	}
	at := map[Key]int{}
	for lines.Scan() {
		var c Cell
		if json.Unmarshal(lines.Bytes(), &c) != nil {
			continue
		}
		if i, found := at[c.Key]; found {
			cells[i] = c
			continue
		}
		at[c.Key] = len(cells)
		cells = append(cells, c)
	}
	return h, cells, lines.Err()
}
