package versions

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// unpack extracts a package into dir/package, readable for all whatever the umask, and makes the symbolic links, which
// npm's archives cannot hold. No path leads out of dir.
func unpack(archive io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return link(root)
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := write(root, header, files); err != nil {
			return err
		}
	}
}

func write(root *os.Root, header *tar.Header, content io.Reader) error {
	if err := makeDirs(root, filepath.Dir(header.Name)); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if header.Mode&0o100 != 0 {
		mode = 0o755
	}
	file, err := root.Create(header.Name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close(), root.Chmod(header.Name, mode))
}

// makeDirs is MkdirAll without the umask.
func makeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if _, err := root.Stat(name); err == nil {
		return nil
	}
	if err := makeDirs(root, filepath.Dir(name)); err != nil {
		return err
	}
	return errors.Join(root.Mkdir(name, 0o755), root.Chmod(name, 0o755))
}

// link makes the links that the package lists. Each target lies in the directory of its link, or below.
func link(root *os.Root) error {
	list, err := root.ReadFile("package/native/pg-symlinks.json")
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return err
	}
	for _, l := range links {
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := root.Symlink(to, filepath.Join("package", l.Target)); err != nil {
			return err
		}
	}
	return nil
}
