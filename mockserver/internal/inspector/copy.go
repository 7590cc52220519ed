package inspector

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A copyForm is a link to a call as code.
type copyForm struct{ Href, Label string }

// copiesOf returns the formats that a call can be copied in.
func copiesOf(ref string, c *tracking.Call) []copyForm {
	all := []copyForm{{"curl", "curl"}, {"go", "Go"}, {"node", "Node"}, {"go-test", "Go test"}}
	switch {
	case !copyas.CanSend(c):
		return nil
	case !copyas.IsTyped(c):
		all = all[:1]
	}
	for i := range all {
		all[i].Href = "/calls/" + ref + "/as/" + all[i].Href
	}
	return all
}

// signedCopies returns a signed curl command for each webhook that receives the call and has a
// secret.
func (p *callPanel) signedCopies(destinations []engine.AttachedDestination) (all []copyForm) {
	for _, d := range destinations {
		receives := slices.ContainsFunc(p.Destinations, func(known callDestination) bool { return known.Name == d.Name && known.Look != "apart" })
		if d.SharedSecret == "" || !receives {
			continue
		}
		for n := range d.Webhooks {
			label := "Signed curl to " + text.Cut(40, d.Name)
			if len(d.Webhooks) > 1 {
				label += fmt.Sprintf(", webhook %d", n+1)
			}
			all = append(all, copyForm{page.Link("/calls/"+p.Ref+"/as/signed", "destination", d.Name, "webhook", strconv.Itoa(n)), label})
		}
	}
	return all
}

// serveCopy serves a call as code.
func (in *Inspector) serveCopy(w http.ResponseWriter, r *http.Request) {
	i, ok := in.c.History().Item(r.PathValue("ref"))
	if !ok || i.Refusal != nil {
		http.NotFound(w, r)
		return
	}
	code, err := in.copyOf(r, &i)
	if err != nil {
		refused := access.ErrorOf(err)
		http.Error(w, page.Sentence(refused.Message), refused.Status)
		return
	}
	page.SecureHeaders(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	access.WriteBody(w, r, http.StatusOK, []byte(code+"\n"))
}

// copyOf returns a call in the requested format.
func (in *Inspector) copyOf(r *http.Request, i *history.Item) (string, error) {
	c := i.Call()
	if !copyas.CanSend(c) {
		return "", access.Errorf(http.StatusConflict, "not_whole", "the call cannot be copied: it is synthetic or incomplete")
	}
	to := copyas.Collector{Endpoint: in.endpointFor(r), WriteKey: in.writeKeyOf(c.Source)}
	code := ""
	switch form := r.PathValue("form"); form {
	case "curl":
		code = copyas.Curl(to, c)
	case "go":
		code = copyas.Go(to, c)
	case "node":
		code = copyas.Node(to, c)
	case "go-test":
		code = copyas.GoTest(c)
	case "signed":
		return in.signedCopy(r, c)
	default:
		return "", access.Errorf(http.StatusNotFound, "not_found", "unknown format %.40q; use curl, go, node, go-test or signed", form)
	}
	if code == "" {
		return "", access.Errorf(http.StatusConflict, "no_type", "client libraries have no method for type %.40q; copy it as curl", c.Type)
	}
	return code, nil
}

// signedCopy returns a curl command that sends the call with the destination's signature.
func (in *Inspector) signedCopy(r *http.Request, c *tracking.Call) (string, error) {
	name := r.URL.Query().Get("destination")
	d := in.c.Settings().Destination(name)
	webhook, err := strconv.Atoi(r.URL.Query().Get("webhook"))
	switch {
	case d == nil:
		return "", access.Errorf(http.StatusNotFound, "not_found", "no destination %q", text.Cut(80, name))
	case err != nil || webhook < 0 || webhook >= len(d.Webhooks):
		return "", access.Errorf(http.StatusNotFound, "not_found", "the destination has %s; webhook is an index from 0", text.Plural(len(d.Webhooks), "webhook", "webhooks"))
	case d.SharedSecret == "":
		return "", access.Errorf(http.StatusConflict, "no_secret", "the destination has no shared secret")
	}
	sent := *c
	sent.Body = in.c.Redact(d, c.Body)
	code, err := copyas.SignedCurl(&d.Settings, in.c.Transform(d), d.Webhooks[webhook], &sent, time.Now(), engine.SecretHeader)
	if err != nil {
		return "", access.Errorf(http.StatusConflict, "no_payload", "%s", strings.TrimPrefix(err.Error(), "webhook: "))
	}
	return code, nil
}

// writeKeyOf returns the write key of a source, or "" if the source is unknown.
func (in *Inspector) writeKeyOf(source string) string {
	if s := in.c.Settings().Source(source); s != nil {
		return s.WriteKey
	}
	return ""
}
