package input

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FormatNames contains the formats of JSON Schema that plans check. regex is checked separately.
var FormatNames = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
	"period", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
}

// Formats returns a check for each format. A check accepts all values that are not strings.
//
// The library provides its formats only in compiled schemas.
var Formats = sync.OnceValue(func() map[string]func(v any) error {
	known := map[string]func(v any) error{}
	for i, name := range FormatNames {
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
	known["email"] = withLocalPart(known["email"])
	return known
})

// withLocalPart rejects email addresses without a local part, which the library accepts.
func withLocalPart(email func(v any) error) func(v any) error {
	return func(v any) error {
		if s, ok := v.(string); ok && strings.HasPrefix(s, "@") {
			return errors.New("the part before @ is empty")
		}
		return email(v)
	}
}
