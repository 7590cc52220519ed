package inspector

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A sourcesPage lists the sources. It shows the write key of at most one source.
type sourcesPage struct {
	Lines    []sourceLine
	Open     *firstRun // source whose write key is shown, or nil
	AnyKey   bool      // whether any write key is accepted
	Endpoint string
}

// A sourceLine is a source without its write key.
type sourceLine struct {
	Name           string
	Key            string // redacted; empty if the source is not in the settings
	CallsPerSecond int    // 0 for the default
	ReadOnly       bool   // whether it is defined in the configuration file
	Calls          string // URL of its calls
}

func (in *Inspector) showSources(r *http.Request) (page.Response, error) {
	known := in.c.Settings()
	p := sourcesPage{AnyKey: in.c.AcceptsAnyWriteKey(), Endpoint: in.endpointFor(r)}
	for _, name := range in.sourceNames() {
		line := sourceLine{Name: name, Calls: rows.By("source", name).Link("/")}
		if s := known.Source(name); s != nil {
			line.Key, line.CallsPerSecond = text.Redact(s.WriteKey), s.CallsPerSecond
			line.ReadOnly = in.c.Configured().Source(name) != nil
		}
		p.Lines = append(p.Lines, line)
	}
	if name := r.URL.Query().Get("key"); name != "" {
		key := in.writeKeyOf(name)
		if key == "" {
			return page.Problem(http.StatusNotFound, "Source not found", "It may have been deleted."), nil
		}
		p.Open = in.startWith(r, name, key)
	}
	return page.Response{Template: "sources", Page: page.Page{Title: "Sources", Nav: "sources", Body: p}}.OrPart(r, "lines"), nil
}

// serveWriteKey serves the write key of a source, to copy it.
func (in *Inspector) serveWriteKey(w http.ResponseWriter, r *http.Request) {
	key := in.writeKeyOf(r.URL.Query().Get("name"))
	if key == "" {
		http.NotFound(w, r)
		return
	}
	page.SecureHeaders(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(key)) // the browser may have disconnected
}
