package userpage

import (
	"bytes"
	"encoding/json"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// previewMembers is how many members a preview has.
	previewMembers = 8
	// previewText is how many characters of a name or a value it shows.
	previewText = 60
)

// A member is one of an object, as a line shows it.
type member struct {
	Name, Kind, Value string
}

// previewOf returns the first properties of a call, or its traits, and how many more there
// are.
func previewOf(c *tracking.Call) (shown []member, more int) {
	for m := range jsonscan.Members(fields.Find(c.Body, fields.Describing(c.Type))) {
		if len(shown) == previewMembers {
			more++
			continue
		}
		shown = append(shown, member{text.Cut(previewText, string(jsonscan.Unquote(m.Key))), page.KindOf(m.Value), shortValue(m.Value)})
	}
	return shown, more
}

// shortValue writes a value in a few characters. Numbers keep their digits.
func shortValue(value []byte) string {
	if value[0] == '{' || value[0] == '[' {
		var out bytes.Buffer
		if json.Compact(&out, value[:min(len(value), 64<<10)]) == nil {
			value = out.Bytes()
		}
	}
	return text.Cut(previewText, string(value[:min(len(value), 4*previewText)]))
}
