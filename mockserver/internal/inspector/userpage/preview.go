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
	// previewMembers limits the fields of a preview.
	previewMembers = 8
	// previewText limits a name or value, in characters.
	previewText = 60
)

// A member is a field of an object.
type member struct {
	Name, Kind, Value string
}

// previewOf returns the first properties or traits of a call. more is the number of properties or
// traits that it omits.
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

// shortValue returns a truncated JSON value.
func shortValue(value []byte) string {
	if value[0] == '{' || value[0] == '[' {
		var out bytes.Buffer
		if json.Compact(&out, value[:min(len(value), 64<<10)]) == nil {
			value = out.Bytes()
		}
	}
	return text.Cut(previewText, string(value[:min(len(value), 4*previewText)]))
}
