package migrations

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A migration that builds an index on a table with rows builds it concurrently, because CREATE INDEX blocks writers for
// as long as it reads the table. It runs outside of a transaction, so each of its statements can be run again: it has
// one index, and otherwise only comments. golang-migrate sends a file as one transaction unless it is one statement,
// and so reads such a migration as three files, whose numbers no other migration has.

var (
	buildIndex = regexp.MustCompile(`^(CREATE (?:UNIQUE )?INDEX CONCURRENTLY )"([^"]+)"(\s+ON\s+"([^"]+)"\."[^"]+")`)
	dropIndex  = regexp.MustCompile(`^(DROP INDEX CONCURRENTLY )(".+)$`)
)

// concurrently marks a migration that builds an index without blocking writers.
const concurrently = " INDEX CONCURRENTLY "

// concurrentFiles is how many files golang-migrate needs, and how many numbers a concurrent migration takes.
const concurrentFiles = 3

// concurrent tells whether a migration builds an index without blocking writers.
func (m migration) concurrent() bool { return strings.Contains(m.up, concurrently) }

// A direction is the text of a migration up or down, of which the middle part runs outside of a transaction.
type direction struct{ before, alone, after string }

func (d direction) text() string { return d.before + d.alone + d.after }

// resumable returns how a concurrent migration goes up. A build that did not end leaves an invalid index, which every
// write maintains and no query uses: it is dropped and built again. A valid one is kept.
func (m migration) resumable() (up direction) {
	for _, s := range statements(m.up) {
		found := buildIndex.FindStringSubmatch(s)
		if found == nil {
			up.after += s + ";\n"
			continue
		}
		index := fmt.Sprintf(`"%s"."%s"`, found[4], found[2])
		up.before += strings.ReplaceAll(dropInvalid, "{{index}}", index)
		up.alone += buildIndex.ReplaceAllString(s, `${1}IF NOT EXISTS "$2"$3`) + ";\n"
	}
	return up
}

// dropInvalid waits for no more than a moment for whoever uses the table, and fails if another session is building the
// index.
const dropInvalid = `DO $txwork$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_index AS i
        WHERE i.indexrelid = pg_catalog.to_regclass('{{index}}') AND NOT i.indisvalid)
    THEN
        IF pg_catalog.current_setting('lock_timeout') = '0' THEN
            PERFORM pg_catalog.set_config('lock_timeout', '3s', true);
        END IF;
        DROP INDEX {{index}};
    END IF;
END
$txwork$;
`

// undoing returns how a concurrent migration goes down.
func (m migration) undoing() (down direction) {
	for _, s := range statements(m.down) {
		if dropIndex.MatchString(s) {
			down.alone += dropIndex.ReplaceAllString(s, "${1}IF EXISTS $2") + ";\n"
		} else {
			down.before += s + ";\n"
		}
	}
	return down
}

// patiently lets a concurrent build wait for transactions that began before it, as long as they take: nobody waits for
// the build meanwhile.
func patiently(d direction, lockMillis string) string {
	return d.before + "SET lock_timeout = 0;\n" + d.alone + "SET lock_timeout = " + lockMillis + ";\n" + d.after
}

// directions returns the texts of both directions as the Migrator runs them.
func (m migration) directions(lockMillis string) (up, down string) {
	if !m.concurrent() {
		return m.up, m.takenBack()
	}
	return patiently(m.resumable(), lockMillis), patiently(m.undoing(), lockMillis)
}

// plain returns the up direction for tables that were just made, in the same transaction.
func (m migration) plain() string { return strings.ReplaceAll(m.up, concurrently, " INDEX ") }

// A part is a file of a migration, or a pair of files.
type part struct {
	suffix   string // of the migration's name
	up, down string
}

// parts returns the files of a migration, in the order in which they go up.
func (f Format) parts(m migration) []part {
	if !m.concurrent() {
		return []part{{"", m.up, m.takenBack()}}
	}
	up, down := m.resumable(), m.undoing()
	if f == Goose {
		return []part{{"", up.text(), down.text()}}
	}
	const nothing = "SELECT; -- nothing is to be done\n"
	return []part{{"_first", up.before, nothing}, {"", up.alone, down.alone},
		{"_last", up.after, down.before + down.after}}
}

// fileNames returns the names of the files of a migration in all formats, without their ends.
func (m migration) fileNames() (names []string) {
	for _, f := range []Format{GolangMigrate, Goose} {
		for i, p := range f.parts(m) {
			_, rest, _ := strings.Cut(m.name, "_")
			name := fmt.Sprintf("%03d_%s%s", m.version+int64(i), rest, p.suffix)
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
