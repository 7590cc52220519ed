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

// A firstRun is what the page says while no call has come: what to paste.
type firstRun struct {
	Endpoint string
	WriteKey string
	Source   string // whose write key it is; empty where any is taken
	NoSource bool   // no write key would be taken
	Tabs     page.Tabs
}

// firstRun fills the snippets in with this server's address and a write key that
// it takes.
func (in *Inspector) firstRun(r *http.Request) *firstRun {
	f := &firstRun{Endpoint: in.endpointFor(r), WriteKey: "my-write-key"}
	switch sources := in.c.Settings().Sources; {
	case len(sources) > 0:
		f.Source, f.WriteKey = sources[0].Name, sources[0].WriteKey
	case !in.c.TakesAnyWriteKey():
		f.NoSource, f.WriteKey = true, "WRITE_KEY"
	}
	f.Tabs = page.Tabs{ID: "start", Label: "Language", Snippets: []page.Snippet{
		{ID: "curl", Name: "curl", Code: fill("start-curl", f)},
		{ID: "go", Name: "Go", Install: "go get github.com/seed-45eadc4a/analytics-go", Code: fill("start-go", f)},
		{ID: "node", Name: "Node", Install: "npm install @segment/analytics-node", Code: fill("start-node", f)},
	}}
	return f
}

// endpointFor returns where calls are sent to, for someone who asked for this page.
func (in *Inspector) endpointFor(r *http.Request) string {
	own := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		own.Scheme = "https"
	}
	endpoint, err := url.Parse(in.endpoint)
	if err != nil || endpoint.Host == "" {
		return own.String()
	}
	// What listens on all addresses is reached by the name that the page has.
	if ip, err := netip.ParseAddr(endpoint.Hostname()); err == nil && ip.IsUnspecified() {
		endpoint.Host = net.JoinHostPort(own.Hostname(), endpoint.Port())
	}
	return endpoint.String()
}

// snippets are templates of text, in files named for what they are.
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
