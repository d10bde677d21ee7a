// Package mark is the comment of a table, which says which version the table has and which programs it serves. Every
// released program reads the comments of later ones, so this grammar never changes, see ADR 0063:
//
//	txwork core 2 since 1, version 3 since 2; anything else
//
// The first version is that of the core's part of the table, the second the table's own: without it, that is 1. A
// version without since serves only programs of the same version.
package mark

import (
	"fmt"
	"regexp"
	"strconv"
)

// Prefix begins the mark of a table that instantiates the core.
const Prefix = "txwork core "

// A Mark is what the comment of a table says.
type Mark struct {
	Core  Version // of the part that every table has
	Table Version // of the table itself
}

// A Version is that of a table, or of its core.
type Version struct {
	Is    int
	Since int // the oldest version of a program that it serves
}

// A Program is what a program says about the tables for which it was written.
type Program struct {
	Is     int // the version of the table for which it was written
	Oldest int // the oldest version of a table with which it works
}

// A Fit says whether a program can use a table.
type Fit int

const (
	Fits    Fit = iota
	Pending     // fits, and a migration of the table is pending
	TooOld      // the table is to be migrated
	TooNew      // the program is to be upgraded
)

// For tells whether a program can use a table of this version.
func (v Version) For(p Program) Fit {
	switch {
	case v.Is < p.Oldest:
		return TooOld
	case v.Since > p.Is:
		return TooNew
	case v.Is < p.Is:
		return Pending
	}
	return Fits
}

var grammar = regexp.MustCompile(`^txwork [a-z_]+ ([0-9]{1,9})(?: since ([0-9]{1,9}))?` +
	`(?:, version ([0-9]{1,9})(?: since ([0-9]{1,9}))?)?(?:;.*)?$`)

// Parse reads a comment. It returns false for a comment that is no mark.
func Parse(comment string) (Mark, bool) {
	found := grammar.FindStringSubmatch(comment)
	if found == nil {
		return Mark{}, false
	}
	return Mark{version(found[1], found[2]), version(found[3], found[4])}, true
}

func version(is, since string) Version {
	v := Version{1, 1}
	if is == "" {
		return v
	}
	v.Is, _ = strconv.Atoi(is) // the grammar admits nine digits
	v.Since = v.Is
	if since != "" {
		v.Since, _ = strconv.Atoi(since)
	}
	return v
}

// String is the comment of a table that instantiates the core.
func (m Mark) String() string {
	text := Prefix + m.Core.String()
	if (m.Table != Version{1, 1}) {
		text += ", version " + m.Table.String()
	}
	return text
}

func (v Version) String() string {
	if v.Since == v.Is {
		return strconv.Itoa(v.Is)
	}
	return fmt.Sprintf("%d since %d", v.Is, v.Since)
}
