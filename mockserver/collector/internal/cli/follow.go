package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A followed collector is a live.Source.
type followed struct {
	client *client
	query  url.Values // picks what is followed
}

// followWait is how long a request waits for something to happen.
const followWait = 20 * time.Second

// Activity implements live.Source.
func (f followed) Activity(ctx context.Context, after string, limit int, newest bool) (live.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*followWait)
	defer cancel()
	q := maps.Clone(f.query)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(limit))
	q.Set("wait", strconv.Itoa(int(followWait/time.Second)))
	q.Set("newest", strconv.FormatBool(newest))
	if after != "" {
		q.Set("after", after)
	}
	page, err := get[live.Page](ctx, f.client, "/activity?"+q.Encode())
	return page.read, err
}

// pathOf is the path of the call of an activity.
func pathOf(a live.Activity) string {
	return "/calls/" + url.PathEscape(a.Source) + "/" + url.PathEscape(a.MessageID)
}

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
			return "", errors.New("no destination is done with it")
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

// Curl implements live.Source. What goes to the collector has the name of its source for
// its write key: it takes any.
func (f followed) Curl(ctx context.Context, a live.Activity) (string, error) {
	switch a.Kind {
	case "refused", "rejected":
		return f.curlRejected(ctx, a)
	case "attempt":
		list, err := get[struct{ Attempts []attempt }](ctx, f.client, pathOf(a)+"/attempts")
		if err != nil {
			return "", err
		}
		for _, one := range slices.Backward(list.read.Attempts) {
			if one.Destination == a.Destination && one.Number == a.Attempt && one.URL == a.URL {
				return curl("", one.URL, one.RequestHeader, one.RequestBody), nil
			}
		}
		return "", errors.New("the collector does not remember the attempt any more")
	}
	one, err := get[call](ctx, f.client, pathOf(a))
	if err != nil {
		return "", err
	}
	return f.curlToCollector(a.Source, one.read.Type, one.read.Body)
}

// curlRejected sends what was not taken again, as it was.
func (f followed) curlRejected(ctx context.Context, a live.Activity) (string, error) {
	list, err := get[struct {
		Calls    []struct{ Ref, Type, Body string }
		Requests []struct{ Ref, Method, Path, Body string }
	}](ctx, f.client, "/rejections?limit=500")
	if err != nil {
		return "", err
	}
	for _, c := range list.read.Calls {
		if c.Ref == a.Ref {
			return f.curlToCollector(a.Source, c.Type, []byte(c.Body))
		}
	}
	for _, r := range list.read.Requests {
		if r.Ref == a.Ref {
			base, err := f.client.base()
			return curl("-X "+copyas.Shell(r.Method)+" -u "+copyas.Shell(cmp.Or(a.Source, "dev")+":"), base+r.Path, http.Header{"Content-Type": {"application/json"}}, r.Body), err
		}
	}
	return "", errors.New("the collector does not remember it any more")
}

// curlToCollector sends a call like this one.
func (f followed) curlToCollector(source, kind string, body []byte) (string, error) {
	base, err := f.client.base()
	if err != nil {
		return "", err
	}
	c := tracking.Call{Type: kind, Body: body}
	if !copyas.CanSend(&c) {
		return "", errors.New("no sender can send it: it is not whole, or the collector's own")
	}
	return copyas.Curl(copyas.Collector{Endpoint: base, WriteKey: source}, &c), nil
}

// curl writes a request as copyas does. What is secret in its header is not known here.
func curl(options, url string, header http.Header, body string) string {
	words := []string{strings.TrimSpace("curl -g " + options), copyas.Shell(url)}
	command := strings.Join(words, " ")
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			command += " \\\n  -H " + copyas.Shell(name+": "+value)
		}
	}
	return command + " \\\n  --data-raw " + copyas.Shell(body)
}

// openPage opens a page in the reader's browser.
func openPage(page string) error {
	program, args := "xdg-open", []string{page}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", page}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no display here to open a page on: open it elsewhere")
		}
	}
	cmd := exec.Command(program, args...) //nolint:gosec // the page is the collector's
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("no program opens pages here (%w): open it by hand", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
