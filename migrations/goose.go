package migrations

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"strings"
)

const (
	gooseAlone = "-- +goose NO TRANSACTION\n"
	gooseUp    = "-- +goose Up\n"
	gooseDown  = "-- +goose Down\n"
	gooseBegin = "-- +goose StatementBegin\n"
	gooseEnd   = "-- +goose StatementEnd\n"
)

// gooseFile joins the two directions of a migration in a goose file.
func gooseFile(up, down string) string {
	text := gooseUp + annotate(up) + "\n" + gooseDown + annotate(down)
	if strings.Contains(up, concurrently) {
		text = gooseAlone + text
	}
	return text
}

// annotate encloses statements that contain semicolons, which are functions and DO blocks, in goose's annotations.
// goose ends any other statement at the first line that ends in a semicolon.
func annotate(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if begins(line) {
			inside = true
			b.WriteString(gooseBegin)
		}
		b.WriteString(line)
		if inside && line == "$txwork$;\n" {
			inside = false
			b.WriteString(gooseEnd)
		}
	}
	return b.String()
}

// begins reports whether a line is the first of a statement with a dollar-quoted body.
func begins(line string) bool {
	return strings.HasPrefix(line, "CREATE FUNCTION ") || strings.HasPrefix(line, "CREATE OR REPLACE FUNCTION ") ||
		strings.HasPrefix(line, "CREATE PROCEDURE ") ||
		line == "DO $txwork$\n"
}

// gooseLayout returns the directory of migrations that goose reads. It is for sessions with a lock timeout.
func gooseLayout(all []migration, lockMillis string) (fs.FS, error) {
	dir := make([]file, len(all))
	for i, m := range all {
		dir[i] = file{m.name + ".sql", gooseFile(m.directions(lockMillis))}
	}
	return directory(dir)
}

// A file is a text with a name.
type file struct{ name, text string }

// directory returns a file system in memory. It is a zip archive because that is the only such file system in the
// standard library outside the packages for tests, which no program should link.
func directory(files []file) (fs.FS, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write([]byte(f.text)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
}
