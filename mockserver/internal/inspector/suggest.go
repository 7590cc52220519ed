package inspector

import (
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// suggestedFrom is the number of recent calls that suggestions are taken from.
const suggestedFrom = 2000

// suggest returns suggestions for a search.
func (in *Inspector) suggest(r *http.Request) (page.Response, error) {
	found := search.Complete(r.URL.Query().Get("q"), in.known())
	return page.Response{Template: "calls", Part: "suggestions", Page: page.Page{Body: found}}, nil
}

// known returns names and values of recent calls.
func (in *Inspector) known() search.Known {
	var calls []tracking.Call
	in.c.History().Scan(history.Newest, func(i *history.Item) bool {
		calls = append(calls, *i.Call())
		return len(calls) < suggestedFrom
	})
	events, users := search.Counter{}, search.Counter{}
	for i := range calls {
		events.Add(event.NameOf(&calls[i]))
		users.Add(calls[i].UserID)
	}
	known := search.Known{Values: map[string][]string{"event": events.Commonest(), "user": users.Commonest(), "source": in.sourceNames(), "destination": in.c.Settings().DestinationNames()}}
	known.Members = func(object fields.Field) [][]string { return membersOf(calls, object) }
	known.Samples = func(object fields.Field, path []string) []string { return samplesOf(calls, object, path) }
	return known
}

// membersOf returns the paths of object fields in the calls, at most two levels deep, most
// frequent first.
func membersOf(calls []tracking.Call, object fields.Field) [][]string {
	const separator = "\x00"
	names := search.Counter{}
	for i := range calls {
		for m := range jsonscan.Members(fields.Find(calls[i].Body, object)) {
			name := string(jsonscan.Unquote(m.Key))
			if m.Value[0] != '{' {
				names.Add(name)
			}
			for below := range jsonscan.Members(m.Value) {
				names.Add(name + separator + string(jsonscan.Unquote(below.Key)))
			}
		}
	}
	var paths [][]string
	for _, name := range names.Commonest() {
		paths = append(paths, strings.Split(name, separator))
	}
	return paths
}

// samplesOf returns scalar values at a path, most frequent first.
func samplesOf(calls []tracking.Call, object fields.Field, path []string) []string {
	const longest = 100
	values := search.Counter{}
	for i := range calls {
		value := fields.Find(calls[i].Body, object)
		for _, name := range path {
			value = fields.Member(value, name)
		}
		if len(value) == 0 || len(value) > longest {
			continue
		}
		if text := fields.Text(value); text != "" {
			values.Add(text)
		} else if value[0] != '{' && value[0] != '[' {
			values.Add(string(value))
		}
	}
	return values.Commonest()
}
