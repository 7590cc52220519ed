package plan_test

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

// suite is the JSON Schema test suite, github.com/json-schema-org/JSON-Schema-Test-Suite
// at 44401e0c, for the supported drafts. Its license is in the same directory.
const suite = "testdata/json-schema-test-suite.zip"

// expectedFailures contains the files with failing tests, with the number of failures and the reason.
var expectedFailures = map[string]struct {
	tests int
	why   string
}{
	"draft2020-12/dynamicRef.json":                       {13, "schemas of other hosts are not fetched"},
	"draft2020-12/format.json":                           {17, "formats are always checked"},
	"draft2020-12/refRemote.json":                        {31, "schemas of other hosts are not fetched"},
	"draft2020-12/vocabulary.json":                       {5, "schemas of other hosts are not fetched"},
	"draft2020-12/optional/cross-draft.json":             {1, "schemas of other hosts are not fetched"},
	"draft2020-12/optional/ecmascript-regex.json":        {14, "patterns are RE2"},
	"draft2020-12/optional/format-assertion.json":        {4, "schemas of other hosts are not fetched"},
	"draft2020-12/optional/format/duration.json":         {2, "the library takes a few more"},
	"draft2020-12/optional/format/ecmascript-regex.json": {9, "patterns are RE2"},
	"draft2020-12/optional/format/hostname.json":         {24, "names in other scripts are not looked into"},
	"draft2020-12/optional/format/idn-email.json":        {2, "names in other scripts are not looked into"},
	"draft2020-12/optional/format/idn-hostname.json":     {54, "names in other scripts are not looked into"},
	"draft2020-12/optional/format/ipv4.json":             {1, "the library takes a few more"},
	"draft2020-12/optional/format/iri.json":              {1, "the library takes a few more"},
	"draft2020-12/optional/format/uri-reference.json":    {4, "the library takes a few more"},
	"draft2020-12/optional/format/uri-template.json":     {11, "the library takes a few more"},
	"draft2020-12/optional/format/uri.json":              {10, "the library takes a few more"},
	"draft7/refRemote.json":                              {23, "schemas of other hosts are not fetched"},
	"draft7/optional/content.json":                       {4, "contents are notes"},
	"draft7/optional/cross-draft.json":                   {2, "schemas of other hosts are not fetched"},
	"draft7/optional/ecmascript-regex.json":              {14, "patterns are RE2"},
	"draft7/optional/format/ecmascript-regex.json":       {9, "patterns are RE2"},
	"draft7/optional/format/hostname.json":               {24, "names in other scripts are not looked into"},
	"draft7/optional/format/idn-email.json":              {2, "names in other scripts are not looked into"},
	"draft7/optional/format/idn-hostname.json":           {54, "names in other scripts are not looked into"},
	"draft7/optional/format/ipv4.json":                   {1, "the library takes a few more"},
	"draft7/optional/format/iri.json":                    {1, "the library takes a few more"},
	"draft7/optional/format/uri-reference.json":          {4, "the library takes a few more"},
	"draft7/optional/format/uri-template.json":           {11, "the library takes a few more"},
	"draft7/optional/format/uri.json":                    {10, "the library takes a few more"},
}

// TestJSONSchemaSuite runs the test suite. It uses each schema as the schema of an event, and each
// value as the properties of a call.
func TestJSONSchemaSuite(t *testing.T) {
	archive, err := zip.OpenReader(suite)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	passed := 0
	for _, file := range archive.File {
		name := strings.TrimPrefix(file.Name, "tests/")
		if path.Ext(name) != ".json" {
			continue
		}
		var failures []string
		for _, group := range readSuite(t, archive, file.Name) {
			p, f := group.run(name)
			passed += p
			failures = append(failures, f...)
		}
		if len(failures) != expectedFailures[name].tests {
			t.Errorf("%s: %d tests do not pass, want %d\n  %s", name, len(failures), expectedFailures[name].tests, strings.Join(failures, "\n  "))
		}
	}
	if passed < 1500 {
		t.Errorf("only %d tests passed", passed)
	}
	t.Logf("%d tests passed", passed)
}

type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func readSuite(t *testing.T, archive fs.FS, name string) (groups []suiteGroup) {
	t.Helper()
	f, err := archive.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err == nil {
		err = json.Unmarshal(text, &groups)
	}
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

// run runs a group of tests. It returns the number of passed tests, and the failures.
func (g suiteGroup) run(name string) (passed int, failures []string) {
	schema := string(g.Schema)
	if strings.HasPrefix(name, "draft7/") && strings.HasPrefix(schema, "{") && !strings.Contains(schema, "$schema") {
		schema = `{"$schema":"http://json-schema.org/draft-07/schema#",` + strings.TrimSpace(schema[1:])
		schema = strings.Replace(schema, ",}", "}", 1)
	}
	p, err := plan.Parse("suite.json", fmt.Appendf(nil, `{"plan":"suite","track":{"E":{"schema":%s}}}`, schema))
	if err != nil {
		for range g.Tests {
			failures = append(failures, fmt.Sprintf("%s: %v", g.Description, err))
		}
		return 0, failures
	}
	for _, test := range g.Tests {
		if string(test.Data) == "null" {
			continue // in a plan, null properties are equal to {}
		}
		violations := p.Judge(fmt.Appendf(nil, `{"type":"track","event":"E","properties":%s}`, test.Data))
		if (violations == nil) != test.Valid {
			failures = append(failures, fmt.Sprintf("%s: %s: %v", g.Description, test.Description, violations))
			continue
		}
		passed++
	}
	return passed, failures
}
