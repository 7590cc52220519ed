package inspector

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	maxExample     = 4 << 10 // bytes of a body in an example
	maxDifferences = 50      // lines of an example
)

// A bodyExample is a recent call with the body that a form would send.
type bodyExample struct {
	Type, Title, Href string
	Body, Reason      string          // one of them is empty
	Failed            bool            // whether the call would fail, instead of being filtered
	Differences       []jsondiff.Line // from the body without redaction and transform, at most maxDifferences
	Total             int             // number of differences
}

// Examples returns the examples of the preview.
func (f destinationForm) Examples() []bodyExample {
	var all []bodyExample
	for _, e := range f.Preview.Examples {
		shown := bodyExample{
			Type: e.Call.Type, Title: text.Cut(rows.TextLimit, history.TitleOf(e.Call)), Reason: e.Reason, Failed: e.Failed,
			Href: rows.Filter{}.Link("/call", "source", e.Call.Source, "id", e.Call.ID),
		}
		if e.Body != nil {
			shown.Body = text.Cut(maxExample, page.Indented(e.Body))
			if d, err := jsondiff.ComparePaths(e.Input, e.Body); err == nil {
				shown.Total, shown.Differences = d.Differing, d.Changes(maxDifferences)
			}
		}
		all = append(all, shown)
	}
	return all
}
