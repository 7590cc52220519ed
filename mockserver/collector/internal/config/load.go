package config

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/yamldoc"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
)

// Load reads a configuration file and the files that it names. If the file itself is readable, the
// error is of type Problems.
func Load(name string) (*Config, error) {
	c, _, err := LoadFiles(name)
	return c, err
}

// LoadFiles is like Load. It also returns the files that it read, even if it returns an error.
func LoadFiles(name string) (*Config, Files, error) {
	return load(name, func(string) []netip.Addr { return nil })
}

// Check is like Load. It also resolves the host names of webhooks for at most three seconds, and
// reports names with addresses that egress does not allow. It ignores names that cannot be resolved.
func Check(ctx context.Context, name string) (*Config, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, _, err := load(name, func(host string) []netip.Addr {
		addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		return addresses
	})
	return c, err
}

func load(name string, lookup settings.Resolver) (*Config, Files, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	files := Files{}
	files.add(path)
	data, err := ReadFile(path, yamldoc.MaxBytes)
	switch {
	case len(data) > yamldoc.MaxBytes:
		return nil, files, Problems{{File: name, Wrong: fmt.Sprintf("is larger than %d bytes", yamldoc.MaxBytes)}}
	case err != nil:
		return nil, files, err
	}
	c, err := parse(name, data, expander{dir: filepath.Dir(path), getenv: os.LookupEnv, files: files}, lookup)
	if c != nil {
		c.files = files
	}
	return c, files, err
}

// parse parses a configuration. Problems contain file as the name of the configuration file.
func parse(file string, data []byte, e expander, lookup settings.Resolver) (*Config, error) {
	d := &decoder{
		file: file, path: absolute(e.dir, filepath.Base(file)), dir: e.dir, expand: e.expand,
		at: map[string]*token.Token{}, raw: map[string]string{}, anchors: map[string]ast.Node{},
	}
	c := &Config{}
	d.decode(data, c)
	if len(d.problems) == 0 {
		c.resolve(e.dir)
		for _, path := range []string{c.Admin.TokenFile, c.TLS.CertFile, c.TLS.KeyFile} {
			e.files.add(path)
		}
		c.readPlans(d, e.files)
		c.check(d, lookup)
	}
	for _, problems := range []Problems{d.problems, d.warnings} {
		slices.SortStableFunc(problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
		})
	}
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	c.warnings = d.warnings
	return c, nil
}

// resolve makes paths absolute and sets defaults.
func (c *Config) resolve(dir string) {
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	paths := []*string{&c.Data, &c.Egress.CAFile, &c.Admin.TokenFile, &c.TLS.CertFile, &c.TLS.KeyFile}
	if c.NATS != nil {
		paths = append(paths, &c.NATS.Credentials, &c.NATS.CAFile, &c.NATS.CertFile, &c.NATS.KeyFile)
	}
	for i := range c.Sources {
		paths = append(paths, &c.Sources[i].Plan)
	}
	for _, p := range paths {
		*p = absolute(dir, *p)
	}
}
