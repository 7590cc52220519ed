// Package formats has the formats of strings that a plan can name.
package formats

import (
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Names are the formats that JSON Schema defines and that are checked, but for regex.
var Names = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
	"period", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
}

// All returns the formats of all Names, which check what is a string and let anything
// else pass.
func All() map[string]func(v any) error { return all() }

// all asks the library for its formats, which it shows only in compiled schemas.
var all = sync.OnceValue(func() map[string]func(v any) error {
	known := map[string]func(v any) error{}
	for i, name := range Names {
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		url := fmt.Sprintf("format:///%d", i)
		if compiler.AddResource(url, map[string]any{"format": name}) != nil {
			continue
		}
		if s, err := compiler.Compile(url); err == nil && s.Format != nil {
			known[name] = s.Format.Validate
		}
	}
	return known
})
