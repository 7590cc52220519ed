package timeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestLinkOf(t *testing.T) {
	for name, c := range map[string]struct {
		call tracking.Call
		want string
	}{
		"alias":                        {tracking.Call{Type: "alias", PreviousID: "a", UserID: "b"}, "a b"},
		"alias to itself":              {tracking.Call{Type: "alias", PreviousID: "a", UserID: "a"}, ""},
		"alias without a previousId":   {tracking.Call{Type: "alias", UserID: "a"}, ""},
		"identify with both IDs":       {tracking.Call{Type: "identify", AnonymousID: "a", UserID: "b"}, "a b"},
		"identify with a userId":       {tracking.Call{Type: "identify", UserID: "b"}, ""},
		"identify with an anonymousId": {tracking.Call{Type: "identify", AnonymousID: "a"}, ""},
		"track with both IDs":          {tracking.Call{Type: "track", AnonymousID: "a", UserID: "b"}, ""},
		"alias with an anonymousId":    {tracking.Call{Type: "alias", PreviousID: "a", UserID: "b", AnonymousID: "c"}, "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			l, ok := linkOf(&c.call)
			assert.Equal(t, c.want != "", ok)
			if ok {
				assert.Equal(t, c.want, l.Before+" "+l.After)
			}
		})
	}
}

// linksOf parses links such as "a>b b>c".
func linksOf(text string) (links []Link) {
	for _, pair := range strings.Fields(text) {
		before, after, ok := strings.Cut(pair, ">")
		if ok && before != "" && after != "" && before != after {
			links = append(links, Link{Before: before, After: after, MessageID: pair})
		}
	}
	return links
}

func TestLinkedIDs(t *testing.T) {
	for name, c := range map[string]struct{ first, links, want string }{
		"alone":                    {"a", "", "a"},
		"others":                   {"a", "b>c", "a"},
		"forward":                  {"a", "a>b", "a b<a:a>b"},
		"backward":                 {"b", "a>b", "b a<b:a>b"},
		"a chain":                  {"a", "a>b b>c c>d", "a b<a:a>b c<b:b>c d<c:c>d"},
		"a chain, backward":        {"d", "a>b b>c c>d", "d c<d:c>d b<c:b>c a<b:a>b"},
		"two anonymousIds":         {"x", "x>ada y>ada", "x ada<x:x>ada y<ada:y>ada"},
		"a circle":                 {"a", "a>b b>c c>a", "a b<a:a>b c<a:c>a"},
		"duplicate link":           {"a", "a>b a>b b>a", "a b<a:a>b"},
		"the nearest first":        {"a", "c>d b>c a>b a>e", "a b<a:a>b e<a:a>e c<b:b>c d<c:c>d"},
		"unrelated users":          {"a", "a>b c>d", "a b<a:a>b"},
		"two users on one machine": {"ada", "m>ada m>bob", "ada m<ada:m>ada bob<m:m>bob"},
	} {
		t.Run(name, func(t *testing.T) {
			ids, more := linkedIDs(c.first, linksOf(c.links))
			var got []string
			for _, id := range ids {
				text := id.ID
				if id.Via != nil {
					text += "<" + id.To + ":" + id.Via.MessageID
				}
				got = append(got, text)
			}
			assert.Equal(t, c.want, strings.Join(got, " "))
			assert.False(t, more)
		})
	}
}

func TestLinkedIDsAreLimited(t *testing.T) {
	var chain, star []string
	for i := range MaxIDs + 5 {
		chain = append(chain, fmt.Sprintf("a%d>a%d", i, i+1))
		star = append(star, fmt.Sprintf("a0>b%d", i))
	}
	for _, links := range [][]string{chain, star} {
		ids, more := linkedIDs("a0", linksOf(strings.Join(links, " ")))
		assert.Len(t, ids, MaxIDs)
		assert.True(t, more)
	}
	ids, more := linkedIDs("a0", linksOf(strings.Join(chain[:MaxIDs-1], " ")))
	assert.Len(t, ids, MaxIDs)
	assert.False(t, more, "exactly MaxIDs")
}

// FuzzLinkedIDs compares linkedIDs with a simple transitive closure.
func FuzzLinkedIDs(f *testing.F) {
	f.Add("a", "a>b b>c d>e c>d")
	f.Add("a", "b>a c>b a>c")
	f.Fuzz(func(t *testing.T, first, text string) {
		links := linksOf(text)
		ids, more := linkedIDs(first, links)
		closure := map[string]bool{first: true}
		for range len(links) {
			for _, l := range links {
				if closure[l.Before] || closure[l.After] {
					closure[l.Before], closure[l.After] = true, true
				}
			}
		}
		if more != (len(closure) > MaxIDs) || !more && len(ids) != len(closure) {
			t.Fatalf("%d ids, more: %v; the closure has %d", len(ids), more, len(closure))
		}
		known := map[string]bool{}
		for i, id := range ids {
			if known[id.ID] || !closure[id.ID] {
				t.Fatalf("%q is duplicate or unexpected", id.ID)
			}
			if i > 0 && (!known[id.To] || id.Via.Before+id.Via.After != id.ID+id.To && id.Via.Before+id.Via.After != id.To+id.ID) {
				t.Fatalf("%q is not linked to a previous ID", id.ID)
			}
			known[id.ID] = true
		}
	})
}
