package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxSecretFile is the maximum size of a file in ${file:…}, in bytes.
const maxSecretFile = 64 << 10

// An expander replaces ${NAME} with an environment variable, ${file:PATH} with the contents of a file
// without trailing line breaks, and $${ with ${.
type expander struct {
	dir    string // base directory for relative paths
	getenv func(string) (string, bool)
	files  Files // receives the files that are read; may be nil
}

func (e expander) expand(s string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(s)
			return b.String(), nil
		}
		if plain, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(plain + "${")
			s = rest
			continue
		}
		b.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("has ${ without a closing }: use ${NAME} for an environment variable, or $${ for a literal ${")
		}
		value, err := e.lookUp(name)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		s = after
	}
}

func (e expander) lookUp(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		path = absolute(e.dir, path)
		e.files.add(path)
		return readSecret(path)
	}
	value, ok := e.getenv(name)
	switch {
	case name == "" || strings.ContainsAny(name, " $={"):
		return "", fmt.Errorf("has the invalid reference %s: use ${NAME} for an environment variable, ${file:PATH} for a file, or $${ for a literal ${", text.CutBytes(text.MaxRepeated, "${"+name)+"}")
	case !ok:
		return "", fmt.Errorf("refers to the environment variable %s, which is not set: set it, or use $${ for a literal ${", text.CutBytes(text.MaxRepeated, name))
	}
	return value, nil
}

func readSecret(path string) (string, error) {
	data, err := ReadFile(path, maxSecretFile)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// ReadFile reads a file. A file larger than limit bytes is an error. In this case, the result is the first
// limit+1 bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}

// absolute makes a relative path absolute. An empty path stays empty.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
