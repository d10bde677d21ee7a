//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/xi2/xz"
)

// unpack unpacks the .txz that is the only one in a jar, into a new directory.
func unpack(ctx context.Context, jar []byte, into string) error {
	files, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return err
	}
	for _, file := range files.File {
		if path.Ext(file.Name) != ".txz" {
			continue
		}
		archive, err := file.Open()
		if err != nil {
			return err
		}
		defer archive.Close()
		if err := os.Mkdir(into, 0o755); err != nil {
			return err
		}
		return extract(ctx, archive, into)
	}
	return errors.New("there is no .txz in it")
}

// extract writes what is in a .txz. Nothing is written outside of the directory, whatever the archive says.
func extract(ctx context.Context, archive io.Reader, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	plain, err := xz.NewReader(archive, 0)
	if err != nil {
		return err
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return readToEnd(plain, archive)
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err := write(root, header, files); err != nil {
			return err
		}
	}
}

// readToEnd reads what is behind the last file, because the checksums are there: those of the compressed stream, and
// that of the entry of the jar.
func readToEnd(streams ...io.Reader) error {
	for _, s := range streams {
		if _, err := io.Copy(io.Discard, s); err != nil {
			return err
		}
	}
	return nil
}

// write writes one file of an archive, and the directories that it is in.
func write(root *os.Root, header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(header.Mode).Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	}
	return fmt.Errorf("%s is neither a file nor a directory nor a symbolic link", name)
}
