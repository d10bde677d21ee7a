package migrations

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/txwork/txwork/workqueue"
)

// Export writes the files of [FS] that are missing from a directory, which it creates if necessary, and returns their
// names: none if nothing is new. It recognizes files that an earlier version of txwork has written, whatever their
// numbers are, so call it again after an upgrade. New files are numbered from [FileOptions].First on. Without First
// they get the numbers after all files of the directory or, in a directory without files of your own, their versions.
// If a file exists with different content, Export returns an error and writes nothing.
func Export(dir string, o FileOptions) (written []string, err error) {
	there, err := readExported(dir)
	if err != nil {
		return nil, err
	}
	missing, err := o.missingFrom(there)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("txwork: export: %w", err)
	}
	for _, f := range missing {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o644); err != nil {
			return written, fmt.Errorf("txwork: export: %w", err)
		}
		written = append(written, f.name)
	}
	return written, nil
}

// Needs returns the domains that the files which [Export] wrote to a directory need, and of which it has no files.
func Needs(dir string) ([]Domain, error) {
	there, err := readExported(dir)
	if err != nil {
		return nil, err
	}
	var has []Domain
	for _, m := range load(workqueue.DefaultSchema) {
		for name := range there.names {
			if _, rest, _ := strings.Cut(m.name, "_"); strings.HasPrefix(name, rest+".") {
				has = append(has, m.domain)
			}
		}
	}
	return lacking(has), nil
}

// exported is a directory of migrations, the application's and txwork's.
type exported struct {
	dir     string
	names   map[string]string // of txwork's files there, by the part after the number
	highest int64             // the highest number of any file
	ours    int64             // the highest number of txwork's files
	digits  int               // how many digits the highest number has
	others  bool              // it has files that are not numbered by txwork's versions
}

var numberedFile = regexp.MustCompile(`^([0-9]+)_(txwork_)?(.+\.sql)$`)

func readExported(dir string) (exported, error) {
	e := exported{dir: dir, names: map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("txwork: export: %w", err)
	}
	own := map[string]bool{}
	for _, m := range load("txwork") {
		for _, name := range m.fileNames() {
			own[name] = true
		}
	}
	for _, entry := range entries {
		m := numberedFile.FindStringSubmatch(entry.Name())
		if m == nil {
			continue
		}
		number, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			continue // no migration has such a number
		}
		stem, _, _ := strings.Cut(entry.Name(), ".")
		ours := m[2] != "" || own[stem]
		if ours {
			e.names[m[3]], e.ours = entry.Name(), max(e.ours, number)
		}
		e.others = e.others || !own[stem]
		if number > e.highest {
			e.highest, e.digits = number, len(m[1])
		}
	}
	return e, nil
}

// missingFrom returns the files that are missing from the directory, with the numbers that they get there.
func (o FileOptions) missingFrom(e exported) (missing []file, err error) {
	next := max(o.First, e.ours+1)
	if o.First == 0 {
		next = e.highest + 1
	}
	plain := o
	plain.First = 0
	all, err := plain.files()
	if err != nil {
		return nil, err
	}
	numbers := map[string]int64{}
	for _, f := range all {
		stem, end, _ := strings.Cut(f.name, ".")
		_, rest, _ := strings.Cut(stem, "_")
		if name, found := e.names[rest+"."+end]; found {
			if err := e.same(name, f.text); err != nil {
				return nil, err
			}
			continue
		}
		if o.First > 0 || e.others {
			number, begun := numbers[rest]
			if !begun {
				number, next = next, next+1
				numbers[rest] = number
			}
			f.name = fmt.Sprintf("%0*d_txwork_%s.%s", e.digits, number, rest, end)
		}
		missing = append(missing, f)
	}
	return missing, nil
}

// same returns an error if a file's content is not that of the migration.
func (e exported) same(name, text string) error {
	there, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		return fmt.Errorf("txwork: export: %w", err)
	}
	if !bytes.Equal(there, []byte(text)) {
		return fmt.Errorf("txwork: export: %s has another content: it was edited, or made for another schema or other "+
			"domains; nothing was written", filepath.Join(e.dir, name))
	}
	return nil
}
