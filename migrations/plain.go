package migrations

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/txwork/txwork/workqueue/validate"
)

// FileOptions say which migrations [SQL], [FS] and [Export] write, and how. The zero value is usable.
type FileOptions struct {
	// Schema holds txwork's tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Domains are exactly the domains that are written; those that they need are not added. Write [Reaper] once for
	// each schema, and [Timers] together with [Alarms] or before. To add a domain later, write it alone. Default: the
	// [DefaultDomains].
	Domains []Domain

	// Format is the format of the tool that reads the files. SQL ignores it. Default: [GolangMigrate].
	Format Format

	// First is the number of the first file, such as 20261123000001 among files of your own; the others follow.
	// Default: the files have their versions as numbers. With Export into a directory that has files of your own, the
	// default is the numbers after the highest there.
	First int64
}

// A Format is a layout of files.
type Format int

const (
	GolangMigrate Format = iota // pairs NNN_name.up.sql and NNN_name.down.sql, in plain SQL
	Goose                       // NNN_name.sql with both directions, between goose's annotations
)

// ParseFormat is the inverse of [Format.String].
func ParseFormat(name string) (Format, error) {
	for _, f := range []Format{GolangMigrate, Goose} {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, validate.Errorf("format", "%q is unknown, there are %s and %s", name, GolangMigrate, Goose)
}

func (f Format) String() string {
	if f == Goose {
		return "goose"
	}
	return "golang-migrate"
}

// migrations checks the options and loads the migrations that they select.
func (o FileOptions) migrations() (schema string, chosen []migration, err error) {
	if schema, err = schemaOrDefault(o.Schema); err != nil {
		return "", nil, err
	}
	if err := checkDomains(o.Domains); err != nil {
		return "", nil, err
	}
	if o.Format != GolangMigrate && o.Format != Goose {
		return "", nil, validate.Errorf("format", "is %d: use GolangMigrate or Goose", int(o.Format))
	}
	if o.First < 0 {
		return "", nil, validate.Errorf("first", "is %d, it cannot be negative", o.First)
	}
	if len(o.Domains) == 0 {
		o.Domains = DefaultDomains()
	}
	return schema, of(load(schema), o.Domains), nil
}

// SQL returns, as plain SQL, what [Migrator.Up] does to a database without txwork: for psql, for Atlas and for review.
// It records the versions too, so that [Migrator.Up] can take over later.
//
// The text does not begin or commit a transaction: run it in one. With psql:
//
//	psql -v ON_ERROR_STOP=1 --single-transaction -f txwork.sql "$DATABASE_URL"
func SQL(o FileOptions) (string, error) {
	schema, all, err := o.migrations()
	if err != nil {
		return "", err
	}
	parts := []string{sqlHeader(schema, all), prologue(schema)}
	for _, m := range all {
		parts = append(parts, "-- Migration "+m.name+"\n\n"+m.plain(),
			recordVersion(schema, m.version)+recordDomain(schema, m.domain))
	}
	return strings.Join(parts, "\n"), nil
}

func sqlHeader(schema string, all []migration) string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	return fmt.Sprintf(`-- txwork: schema %q with the migrations %s. Run it in one transaction:
--     psql -v ON_ERROR_STOP=1 --single-transaction -f FILE "$DATABASE_URL"
`, schema, strings.Join(names, ", "))
}

// FS returns a directory of migration files. Like [SQL] they record the versions in the schema's own table, in addition
// to the table of the tool that runs them.
func FS(o FileOptions) (fs.FS, error) {
	all, err := o.files()
	if err != nil {
		return nil, err
	}
	return directory(all)
}

// files returns the files of a migration. Their names are only suffixes, to be appended to the migration's name.
func (f Format) files(up, down string) []file {
	if f == Goose {
		return []file{{".sql", gooseFile(up, down)}}
	}
	return []file{{".up.sql", up}, {".down.sql", down}}
}

func (o FileOptions) files() (all []file, err error) {
	schema, chosen, err := o.migrations()
	if err != nil {
		return nil, err
	}
	return o.filesOf(schema, chosen), nil
}

func (o FileOptions) filesOf(schema string, chosen []migration) (all []file) {
	next := o.First
	for i, m := range chosen {
		record, forget := recordVersion(schema, m.version), forgetVersion(schema, m.version)
		if m.concurrent() {
			record = strings.TrimSuffix(record, ";\n") + onConflict + ";\n"
		}
		if !slices.ContainsFunc(chosen[:i], func(earlier migration) bool { return earlier.domain == m.domain }) {
			record, forget = record+recordDomain(schema, m.domain), forget+forgetDomain(schema, m.domain)
		}
		parts := o.Format.parts(m)
		for j, p := range parts {
			up, down := p.up, p.down
			if j == len(parts)-1 {
				up, down = up+"\n"+record, down+forget
			}
			if i == 0 && j == 0 {
				up, down = prologue(schema)+"\n"+up, down+epilogue(schema)
			}
			_, rest, _ := strings.Cut(m.name, "_")
			name := fmt.Sprintf("%03d_%s%s", m.version+int64(j), rest, p.suffix)
			if o.First > 0 {
				name, next = fmt.Sprintf("%d_txwork_%s%s", next, rest, p.suffix), next+1
			}
			for _, f := range o.Format.files(up, down) {
				all = append(all, file{name + f.name, f.text})
			}
		}
	}
	return all
}
