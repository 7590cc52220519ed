package inspector

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"text/template"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
)

// A firstRun contains the instructions that are shown before the first call.
type firstRun struct {
	Endpoint string
	WriteKey string
	Source   string // source of the write key; empty if any write key is accepted
	NoSource bool   // whether no write key is accepted
	Tabs     page.Tabs
}

// firstRun returns instructions with the address of this server and a valid write key.
func (in *Inspector) firstRun(r *http.Request) *firstRun {
	switch sources := in.c.Settings().Sources; {
	case len(sources) > 0:
		return in.startWith(r, sources[0].Name, sources[0].WriteKey)
	case in.c.AcceptsAnyWriteKey():
		return in.startWith(r, "", "my-write-key")
	}
	f := in.startWith(r, "", "WRITE_KEY")
	f.NoSource = true
	return f
}

// startWith returns instructions with a write key.
func (in *Inspector) startWith(r *http.Request, source, writeKey string) *firstRun {
	f := &firstRun{Endpoint: in.endpointFor(r), Source: source, WriteKey: writeKey}
	f.Tabs = page.Tabs{ID: "start", Label: "Language", Snippets: []page.Snippet{
		{ID: "curl", Name: "curl", Code: fill("start-curl", f)},
		{ID: "go", Name: "Go", Install: "go get github.com/seed-45eadc4a/analytics-go", Code: fill("start-go", f)},
		{ID: "node", Name: "Node", Install: "npm install @segment/analytics-node", Code: fill("start-node", f)},
	}}
	return f
}

// endpointFor returns the URL that clients send calls to.
func (in *Inspector) endpointFor(r *http.Request) string {
	own := url.URL{Scheme: "http", Host: r.Host}
	if in.pages.Guard.IsHTTPS(r) {
		own.Scheme = "https"
	}
	endpoint, err := url.Parse(in.endpoint)
	if err != nil || endpoint.Host == "" {
		return own.String()
	}
	// If the endpoint listens on all addresses, use the host of the page.
	if ip, err := netip.ParseAddr(endpoint.Hostname()); err == nil && ip.IsUnspecified() {
		endpoint.Host = net.JoinHostPort(own.Hostname(), endpoint.Port())
	}
	return endpoint.String()
}

// snippets are the templates of the code snippets. Each template is named after its file.
var snippets = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"quoted": copyas.Quoted, "shell": copyas.Shell}).
		ParseFS(snippetFiles, "snippets/*.txt"))
})

func fill(name string, data any) string {
	var out strings.Builder
	if err := snippets().ExecuteTemplate(&out, name+".txt", data); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out.String())
}
