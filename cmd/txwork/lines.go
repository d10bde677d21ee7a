package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A line is one line of NDJSON without its newline. Blank lines are left out, but counted.
type line struct {
	number  int
	text    []byte
	read    int64 // bytes of the input up to here
	bad     error // the line cannot be a message
	failure error // the input cannot be read any further
}

// readLines reads in the background, so that a command that waits for input still notices the end of its context. The
// channel is closed after the last line.
func readLines(ctx context.Context, r io.Reader, limit int) <-chan line {
	lines := make(chan line, 64)
	go func() {
		defer close(lines)
		reader := lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
		for {
			l, err := reader.next()
			if err == io.EOF {
				return
			}
			l.failure = err
			select {
			case lines <- l:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// A lineReader reads lines of any length, but keeps only the first limit bytes of each.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	number int
	read   int64
}

// next returns the next line that is not blank, and io.EOF after the last.
func (l *lineReader) next() (line, error) {
	for {
		text, size, err := l.whole()
		if err != nil {
			return line{number: l.number + 1}, err
		}
		l.number++
		if size == len(text) && len(bytes.Trim(text, " \t\r")) == 0 {
			continue
		}
		return line{number: l.number, text: text, read: l.read, bad: l.check(text, size)}, nil
	}
}

// whole reads up to the next newline. A line over the limit is returned truncated, with its full size.
func (l *lineReader) whole() (text []byte, size int, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		l.read += int64(len(part))
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		size += len(part)
		if size <= l.limit {
			text = append(text, part...)
		}
		switch {
		case ended:
			return text, size, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && size > 0:
			return text, size, nil
		default:
			return nil, 0, err
		}
	}
}

func (l *lineReader) check(text []byte, size int) error {
	if size > l.limit {
		return fmt.Errorf("has %d bytes, the limit is %d: --max-payload raises it", size, l.limit)
	}
	return checkJSON(text)
}

// checkJSON refuses a text that is not exactly one JSON value in UTF-8.
func checkJSON(text []byte) error {
	if json.Valid(text) && utf8.Valid(text) {
		return nil
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return fmt.Errorf("has a NUL byte at offset %d", i)
	}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return errors.New("begins with a byte order mark, which JSON does not allow")
	}
	if !utf8.Valid(text) {
		return errors.New("is not valid UTF-8")
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(text, new(json.RawMessage))
	if errors.As(err, &syntax) {
		return fmt.Errorf("is not valid JSON: %s at offset %d", syntax, syntax.Offset)
	}
	return fmt.Errorf("is not valid JSON: %w", err)
}
