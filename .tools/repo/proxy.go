package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// publish writes the files of a module to a directory for GOPROXY=file://DIRECTORY. The module
// can then be built like a tagged version. See https://go.dev/ref/mod#goproxy-protocol.
func publish(proxy, version, dir string) error {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	files, err := tracked(dir)
	if err != nil {
		return err
	}
	out := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(out, version+".zip"))
	if err != nil {
		return err
	}
	info := fmt.Sprintf("{\"Version\":%q,\"Time\":\"2000-01-01T00:00:00Z\"}\n", version)
	return errors.Join(
		zip.Create(f, m, files), // zip.Create omits the files of nested modules
		f.Close(),
		os.WriteFile(filepath.Join(out, version+".mod"), mod, 0o600),
		os.WriteFile(filepath.Join(out, version+".info"), []byte(info), 0o600),
		os.WriteFile(filepath.Join(out, "list"), []byte(version+"\n"), 0o600),
	)
}

// tracked returns the files of the module that git tracks or does not ignore.
func tracked(dir string) ([]zip.File, error) {
	names, err := exec.Command("git", "-C", dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate").Output()
	if err != nil {
		return nil, err
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		f := file{dir: dir, name: name}
		if _, err := f.Lstat(); errors.Is(err, fs.ErrNotExist) {
			continue // the file was deleted, but the deletion is not staged
		}
		files = append(files, f)
	}
	return files, nil
}

// file implements zip.File for a file of a module.
type file struct{ dir, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.name)) }
