package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// followed is a live.Source for a running collector.
type followed struct {
	client *client
	query  url.Values // query parameters that filter activities
}

// followWait is the maximum time that a request waits for activity.
const followWait = 20 * time.Second

// Activity implements live.Source.
func (f followed) Activity(ctx context.Context, after string, limit int, newest bool) (live.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*followWait)
	defer cancel()
	q := maps.Clone(f.query)
	q.Set("limit", strconv.Itoa(limit))
	q.Set("wait", strconv.Itoa(int(followWait/time.Second)))
	q.Set("newest", strconv.FormatBool(newest))
	if after != "" {
		q.Set("after", after)
	}
	page, err := get[live.Page](ctx, f.client, "/activity?"+q.Encode())
	return page.read, err
}

// pathOf returns the API path of an activity's call.
func pathOf(a live.Activity) string { return callPath(a.Source, a.MessageID) }

// Replay implements live.Source.
func (f followed) Replay(ctx context.Context, a live.Activity) (string, error) {
	destinations := []string{a.Destination}
	if a.Destination == "" {
		one, err := get[call](ctx, f.client, pathOf(a))
		if err != nil {
			return "", err
		}
		destinations = nil
		for _, d := range one.read.Destinations {
			if d.State != "pending" {
				destinations = append(destinations, d.Destination)
			}
		}
		if len(destinations) == 0 {
			return "", errors.New("the call is still pending at its destinations: wait for the result")
		}
	}
	var replayed []string
	var failed []error
	for _, destination := range destinations {
		if _, err := ask[any](ctx, f.client, http.MethodPost, pathOf(a)+"/replay", map[string]any{"destination": destination}); err != nil {
			failed = append(failed, err)
		} else {
			replayed = append(replayed, destination)
		}
	}
	return strings.Join(replayed, ", "), errors.Join(failed...)
}

// Curl implements live.Source. A command that sends to the collector uses the name of the source as
// the write key, because collector dev accepts any write key.
func (f followed) Curl(ctx context.Context, a live.Activity) (string, error) {
	switch a.Kind {
	case "refused", "rejected":
		return f.curlRejected(ctx, a)
	case "attempt":
		list, err := get[export.AttemptList](ctx, f.client, pathOf(a)+"/attempts")
		if err != nil {
			return "", err
		}
		for _, one := range slices.Backward(list.read.Attempts) {
			if one.Destination == a.Destination && one.Number == a.Attempt && one.URL == a.URL {
				return curl("", one.URL, one.RequestHeader, one.RequestBody), nil
			}
		}
		return "", errors.New("this attempt has expired")
	}
	one, err := get[call](ctx, f.client, pathOf(a))
	if err != nil {
		return "", err
	}
	return f.curlToCollector(a.Source, one.read.Type, one.read.Body)
}

// A rejection is a rejected call, or a refused request if Method is set.
type rejection struct{ Ref, Type, Method, Path, Body string }

// rejection returns the rejected call or request of an activity.
func (f followed) rejection(ctx context.Context, a live.Activity) (rejection, error) {
	list, err := get[struct{ Calls, Requests []rejection }](ctx, f.client, "/rejections?limit=500")
	if err != nil {
		return rejection{}, err
	}
	for _, r := range slices.Concat(list.read.Calls, list.read.Requests) {
		if r.Ref == a.Ref {
			return r, nil
		}
	}
	return rejection{}, errors.New("this entry has expired")
}

// curlRejected returns the command for a rejected call or request.
func (f followed) curlRejected(ctx context.Context, a live.Activity) (string, error) {
	r, err := f.rejection(ctx, a)
	if err != nil {
		return "", err
	}
	if r.Method == "" {
		return f.curlToCollector(a.Source, r.Type, []byte(r.Body))
	}
	base, err := f.client.base()
	return curl("-X "+copyas.Shell(r.Method)+" -u "+copyas.Shell(cmp.Or(a.Source, "dev")+":"), base+r.Path, http.Header{"Content-Type": {"application/json"}}, r.Body), err
}

// Details implements live.Source.
func (f followed) Details(ctx context.Context, a live.Activity) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, followWait)
	defer cancel()
	var out printer
	if a.Kind == "refused" || a.Kind == "rejected" {
		r, err := f.rejection(ctx, a)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s  %s\n", a.Kind, a.Code)
		writeIndented(&out, a.Message+"\n"+a.Hint)
		fmt.Fprintln(&out)
		if writeJSON(&out, []byte(r.Body)) != nil { // a body that is not JSON is also rejected
			out.WriteString(r.Body)
		}
		return out.String(), nil
	}
	one, list, err := f.client.getOne(ctx, pathOf(a))
	if err == nil {
		one.read.write(&out, list.read.Attempts)
	}
	return out.String(), err
}

// Destinations implements live.Source.
func (f followed) Destinations(ctx context.Context) ([]live.Destination, error) {
	ctx, cancel := context.WithTimeout(ctx, followWait)
	defer cancel()
	list, err := f.client.destinations(ctx)
	all := []live.Destination{}
	for _, d := range list.read.Destinations {
		all = append(all, live.Destination{
			Name: d.Name, State: string(d.Status.State),
			Delivered: d.Ledger.Delivered, Failed: d.Ledger.Failed, Pending: d.Ledger.Pending,
		})
	}
	return all, err
}

// curlToCollector returns a curl command that sends a call to the collector.
func (f followed) curlToCollector(source, kind string, body []byte) (string, error) {
	base, err := f.client.base()
	if err != nil {
		return "", err
	}
	c := tracking.Call{Type: kind, Body: body}
	if !copyas.CanSend(&c) {
		return "", errors.New("this call cannot be sent: it is truncated or synthetic")
	}
	return copyas.Curl(copyas.Collector{Endpoint: base, WriteKey: source}, &c), nil
}

// curl formats a request in the same way as package copyas. Unlike copyas, it does not replace secrets
// in headers.
func curl(options, url string, header http.Header, body string) string {
	command := strings.TrimSpace("curl -g "+options) + " " + copyas.Shell(url)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			line := name + ": " + value
			if value == "" {
				line = name + ";" // curl syntax for a header without a value
			}
			command += " \\\n  -H " + copyas.Shell(line)
		}
	}
	return command + " \\\n  --data-raw " + copyas.Shell(body)
}
