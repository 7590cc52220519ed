package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Load reads a configuration file and all that it refers to. Its error is
// Problems where the file could be read, and holds all of them.
func Load(name string) (*Config, error) {
	c, _, err := LoadFiles(name)
	return c, err
}

// LoadFiles does so too, and returns the files that it came to, also where there is
// something wrong with one.
func LoadFiles(name string) (*Config, Files, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	files := Files{}
	files.add(path)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, files, err
	}
	c, err := parse(name, data, expander{dir: filepath.Dir(path), getenv: os.LookupEnv, files: files})
	if c != nil {
		c.files = files
	}
	return c, files, err
}

// parse reads a configuration. file is its name in problems.
func parse(file string, data []byte, e expander) (*Config, error) {
	d := &decoder{file: file, expand: e.expand, at: map[string]*token.Token{}, anchors: map[string]ast.Node{}}
	c := &Config{}
	d.decode(data, c)
	if len(d.problems) == 0 {
		c.resolve(e.dir)
		for _, path := range []string{c.Admin.TokenFile, c.TLS.CertFile, c.TLS.KeyFile} {
			e.files.add(path)
		}
		c.check(d)
	}
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, d.problems
	}
	return c, nil
}

// resolve makes paths absolute, and fills in what is not said.
func (c *Config) resolve(dir string) {
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	paths := []*string{&c.Data, &c.Egress.CAFile, &c.Admin.TokenFile, &c.TLS.CertFile, &c.TLS.KeyFile}
	if c.NATS != nil {
		paths = append(paths, &c.NATS.Credentials, &c.NATS.CAFile, &c.NATS.CertFile, &c.NATS.KeyFile)
	}
	for _, p := range paths {
		*p = absolute(dir, *p)
	}
}
