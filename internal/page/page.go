// Package page reads the pages of the documentation, and writes reports between their markers.
package page

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Write replaces the text of the page between <!-- name:begin --> and <!-- name:end -->.
func Write(file, name, section string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	written, err := replace(string(text), name, section)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(written), 0o644)
}

// Holds tells whether the section is already in the page.
func Holds(file, name, section string) (bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	written, err := replace(string(text), name, section)
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	return written == string(text), nil
}

// Check returns an error if a report cannot be written into the page.
func Check(file, name string) error {
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = replace(string(text), name, "")
	}
	if err != nil {
		return fmt.Errorf("no report can be written to %s: %w", file, err)
	}
	return nil
}

func replace(text, name, section string) (string, error) {
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", errors.New("the page lacks the line " + begin + " or, after it, " + end)
	}
	return before + begin + "\n" + section + end + after, nil
}
