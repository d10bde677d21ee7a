package workqueue

import "github.com/txwork/txwork/internal/mark"

// Versions of the core: of the columns, triggers and functions that every table has. ADR 0063 says when they are
// raised.
const (
	// SchemaVersion is the version for which this library was written, and which the tables get that it creates.
	SchemaVersion = 1

	// OldestSchemaVersion is the oldest version of a table with which this library works.
	OldestSchemaVersion = 1

	// oldestLibrary is the SchemaVersion of the oldest library that can use the tables that this one creates.
	oldestLibrary = 1
)

// mark is the comment of the table: its versions, and the programs that it serves.
func (s Spec) mark() mark.Mark {
	s = s.withDefaults()
	return mark.Mark{Core: mark.Version{Is: SchemaVersion, Since: oldestLibrary},
		Table: mark.Version{Is: s.Version, Since: s.OldestProgram}}
}

func (s Spec) validateVersion() error {
	if s.Version < 1 || s.Version > maxVersion {
		return invalid("version", "is %d, it must be between 1 and %d", s.Version, maxVersion)
	}
	if s.OldestTable < 1 || s.OldestTable > s.Version {
		return invalid("oldest table", "is %d, it must be between 1 and the version %d", s.OldestTable, s.Version)
	}
	if s.OldestProgram < 1 || s.OldestProgram > s.Version {
		return invalid("oldest program", "is %d, it must be between 1 and the version %d", s.OldestProgram, s.Version)
	}
	return nil
}

// maxVersion is the greatest number that a comment can have.
const maxVersion = 999_999_999

// A Companion is a table that is no instance of the core, see [Spec].Companion. Its comment is that of the core's
// tables with the name of the companion in place of "core", such as "txwork outbox_log 2 since 1".
type Companion struct {
	Table   string // in the schema of the Spec
	Version int    // of the table for which the program was written
	Oldest  int    // the oldest with which it works
}
