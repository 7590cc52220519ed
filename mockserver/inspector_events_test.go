package mockserver_test

import (
	"fmt"
	"html"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

func TestEventsAreSortedByTheChosenColumn(t *testing.T) {
	srv := mockserver.RunT(t)
	send := func(source, event string, calls int, properties string) {
		for i := range calls {
			post(t, srv.URL+"/v1/track", source, fmt.Sprintf(`{"userId":"u","messageId":"%s-%s-%d","event":%q,"properties":%s}`, source, event, i, event, properties))
		}
	}
	send("b", "Alpha", 2, `{"x":1,"y":2,"z":3}`)
	send("a", "beta", 3, `{"x":1}`)
	send("a", "Gamma", 1, `{}`)
	names := func(path string) (names []string, body string) {
		_, body = get(t, srv.URL+path)
		body = html.UnescapeString(body)
		for _, row := range regexp.MustCompile(`<th scope="row">.*?<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(body, -1) {
			names = append(names, row[1])
		}
		return names, body
	}
	for sort, want := range map[string][]string{
		"":            {"beta", "Gamma", "Alpha"},
		"event":       {"Alpha", "beta", "Gamma"},
		"-event":      {"Gamma", "beta", "Alpha"},
		"source":      {"beta", "Gamma", "Alpha"},
		"-source":     {"Alpha", "Gamma", "beta"},
		"calls":       {"beta", "Alpha", "Gamma"},
		"-calls":      {"Gamma", "Alpha", "beta"},
		"properties":  {"Alpha", "beta", "Gamma"},
		"-properties": {"Gamma", "beta", "Alpha"},
		"nonsense":    {"beta", "Gamma", "Alpha"},
	} {
		got, _ := names("/events?sort=" + sort)
		assert.Equal(t, want, got, sort)
	}
	_, body := names("/events?find=a&sort=calls")
	assert.Contains(t, body, `aria-sort="descending"><a href="/events?find=a&sort=-calls">Calls`)
	assert.Contains(t, body, `<th scope="col"><a href="/events?find=a&sort=event">Event`)
	assert.Contains(t, body, `<input type="hidden" name="sort" value="calls">`, "the filter keeps the order")
	_, body = names("/events?sort=-event")
	assert.Contains(t, body, `aria-sort="descending"><a href="/events?sort=event">Event`)
	_, body = names("/events?sort=-seen")
	assert.Contains(t, body, `aria-sort="ascending"><a href="/events?sort=seen">Last seen`)
}
