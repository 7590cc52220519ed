package analytics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

const (
	textUserID     = "You must pass a 'userId'."
	textPreviousID = "You must pass a 'previousId'."
	textGroupID    = "You must pass a 'groupId'."
	textEvent      = "You must pass 'event'."
	textIDs        = "You must pass either an 'anonymousId' or 'userId'."
)

func TestValidation(t *testing.T) {
	stamped := func(s string) analytics.Message { return analytics.Message{Timestamp: s} }
	ids := "anonymousId or userId"
	for _, tt := range []struct {
		name  string
		call  analytics.Call
		kind  string
		field string // the invalid field; empty if the call is valid
		text  string
	}{
		{"alias, nothing", &analytics.Alias{}, "alias", "userId", textUserID},
		{"alias, no new id", &analytics.Alias{PreviousId: "p"}, "alias", "userId", textUserID},
		{"alias, anonymous", &analytics.Alias{PreviousId: "p", AnonymousId: "a"}, "alias", "userId", textUserID},
		{"alias, no old id", &analytics.Alias{UserId: "u"}, "alias", "previousId", textPreviousID},
		{"alias", &analytics.Alias{UserId: "u", PreviousId: "p"}, "", "", ""},
		{"group, nothing", &analytics.Group{}, "group", "groupId", textGroupID},
		{"group, no group", &analytics.Group{UserId: "u"}, "group", "groupId", textGroupID},
		{"group, no ids", &analytics.Group{GroupId: "g"}, "group", ids, textIDs},
		{"group, user", &analytics.Group{GroupId: "g", UserId: "u"}, "", "", ""},
		{"group, anonymous", &analytics.Group{GroupId: "g", AnonymousId: "a"}, "", "", ""},
		{"track, nothing", &analytics.Track{}, "track", "event", textEvent},
		{"track, no event", &analytics.Track{UserId: "u"}, "track", "event", textEvent},
		{"track, no ids", &analytics.Track{Event: "e"}, "track", ids, textIDs},
		{"track, user", &analytics.Track{Event: "e", UserId: "u"}, "", "", ""},
		{"track, anonymous", &analytics.Track{Event: "e", AnonymousId: "a"}, "", "", ""},
		{"identify, no ids", &analytics.Identify{}, "identify", ids, textIDs},
		{"identify, user", &analytics.Identify{UserId: "u"}, "", "", ""},
		{"identify, anonymous", &analytics.Identify{AnonymousId: "a"}, "", "", ""},
		{"page, no ids", &analytics.Page{Name: "n"}, "page", ids, textIDs},
		{"page, user", &analytics.Page{UserId: "u"}, "", "", ""},
		{"page, anonymous", &analytics.Page{AnonymousId: "a"}, "", "", ""},
		{"screen, no ids", &analytics.Screen{Name: "n"}, "screen", ids, textIDs},
		{"screen, user", &analytics.Screen{UserId: "u"}, "", "", ""},
		{"screen, anonymous", &analytics.Screen{AnonymousId: "a"}, "", "", ""},

		{"nil alias", (*analytics.Alias)(nil), "alias", "message", "analytics: alias: the message is nil"},
		{"nil group", (*analytics.Group)(nil), "group", "message", "analytics: group: the message is nil"},
		{"nil identify", (*analytics.Identify)(nil), "identify", "message", "analytics: identify: the message is nil"},
		{"nil page", (*analytics.Page)(nil), "page", "message", "analytics: page: the message is nil"},
		{"nil screen", (*analytics.Screen)(nil), "screen", "message", "analytics: screen: the message is nil"},
		{"nil track", (*analytics.Track)(nil), "track", "message", "analytics: track: the message is nil"},
		{"nil", nil, "call", "message", "analytics: call: the message is nil"},

		{"timestamp", &analytics.Page{UserId: "u", Message: stamped("yesterday")}, "page", "timestamp",
			`analytics: page: timestamp: "yesterday" is not an ISO 8601 time such as 2006-01-02T15:04:05.000Z`},
		{"sentAt", &analytics.Page{UserId: "u", Message: analytics.Message{SentAt: "2020"}}, "page", "sentAt",
			`analytics: page: sentAt: "2020" is not an ISO 8601 time such as 2006-01-02T15:04:05.000Z`},
		{"missing before malformed", &analytics.Track{Message: stamped("x")}, "track", "event", textEvent},
		{"trait", &analytics.Identify{UserId: "u", Traits: map[string]interface{}{"a": map[string]interface{}{"b": math.NaN()}}},
			"identify", "traits.a.b", "analytics: identify: traits.a.b: json: unsupported value: NaN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newClient(t, &collector{}, analytics.Config{})
				defer client.Close()
				err := client.Enqueue(t.Context(), tt.call)
				if err2 := callMethod(client, tt.call); tt.call != nil {
					require.Equal(t, fmt.Sprint(err), fmt.Sprint(err2), "a method and Enqueue differ")
					require.IsType(t, err, err2, "a method and Enqueue differ")
				}
				if tt.text == "" {
					require.NoError(t, err)
					return
				}
				require.EqualError(t, err, tt.text)
				var field *analytics.FieldError
				require.ErrorAs(t, err, &field)
				require.Equal(t, tt.kind, field.Kind)
				require.Equal(t, tt.field, field.Field)
				require.ErrorIs(t, err, &analytics.FieldError{Kind: tt.kind, Field: tt.field})
				require.ErrorIs(t, err, &analytics.FieldError{Kind: tt.kind})
				require.NotErrorIs(t, err, &analytics.FieldError{Kind: "other"})
				require.NotErrorIs(t, err, &analytics.FieldError{Field: "other"})
			})
		})
	}
}

func callMethod(client *analytics.Client, call analytics.Call) error {
	switch m := call.(type) {
	case *analytics.Alias:
		return client.Alias(m)
	case *analytics.Group:
		return client.Group(m)
	case *analytics.Identify:
		return client.Identify(m)
	case *analytics.Page:
		return client.Page(m)
	case *analytics.Screen:
		return client.Screen(m)
	case *analytics.Track:
		return client.Track(m)
	}
	return errors.New("no method takes this")
}

// A value that cannot be encoded as JSON does not affect other calls.
func TestUnmarshalableCallDoesNotAffectOthers(t *testing.T) {
	cycle := map[string]interface{}{}
	cycle["self"] = cycle
	for name, value := range map[string]interface{}{
		"channel": make(chan int), "NaN": math.NaN(), "number": json.Number("12x"),
		"panic": panicking{}, "error": panickingError{}, "cycle": cycle,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &collector{}
				client := newClient(t, c, analytics.Config{})
				track(t, client, "before", 10)
				err := client.Track(&analytics.Track{Event: "bad", UserId: "u", Properties: map[string]interface{}{
					"cart": map[string]interface{}{"total": value},
				}})
				var field *analytics.FieldError
				require.ErrorAs(t, err, &field)
				require.Contains(t, field.Field, "properties.cart.total")
				track(t, client, "after", 9)
				require.NoError(t, client.Close())
				require.Equal(t, []int{19}, c.sizes())
				require.Zero(t, c.taken("event")["bad"])
				require.EqualValues(t, 1, client.Stats().Rejected.Invalid)
			})
		})
	}
}

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("not today") }

// panickingError is returned as a nil pointer, a common mistake.
type panickingError struct{}

func (panickingError) MarshalJSON() ([]byte, error) { var err *nilError; return []byte("1"), err }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// The golden file contains the JSON of each kind of call. It was checked by hand.
func TestWireGolden(t *testing.T) {
	at := func(id string) analytics.Message {
		return analytics.Message{Type: "ignored", MessageId: id, Timestamp: "2015-07-10T17:43:38.123456-07:00"}
	}
	context := map[string]interface{}{"ip": "203.0.113.7", "locale": "nl-NL"}
	only := analytics.NewIntegrations().DisableAll().Enable("Webhooks")
	calls := []analytics.Call{
		&analytics.Identify{UserId: "019mr8mf4r", AnonymousId: "anon-1", Context: context, Integrations: only,
			Traits: map[string]interface{}{"email": "jo@example.com", "age": 41, "full name": "Jo <jo> & Söhne", "rating": 4.5, "vip": true, "left": nil}, Message: at("m-identify")},
		&analytics.Track{UserId: "019mr8mf4r", AnonymousId: "anon-1", Event: "Order \"done\"", Context: context, Integrations: only,
			Properties: map[string]interface{}{"total": 99.5, "products": []interface{}{map[string]interface{}{"sku": "a-1", "qty": 2}}, "at": time.Date(2024, 2, 29, 1, 2, 3, 0, time.UTC)}, Message: at("m-track")},
		&analytics.Page{UserId: "019mr8mf4r", AnonymousId: "anon-1", Category: "Docs", Name: "Go library", Context: context, Integrations: only,
			Traits: map[string]interface{}{"url": "https://example.com/docs?a=1&b=2", "path": "/docs", "title": "Go", "referrer": ""}, Message: at("m-page")},
		&analytics.Screen{UserId: "019mr8mf4r", AnonymousId: "anon-1", Category: "Shop", Name: "Basket", Context: context, Integrations: only,
			Properties: map[string]interface{}{"items": 3}, Message: at("m-screen")},
		&analytics.Group{UserId: "019mr8mf4r", AnonymousId: "anon-1", GroupId: "acme", Context: context, Integrations: only,
			Traits: map[string]interface{}{"name": "Acme", "employees": 1200}, Message: at("m-group")},
		&analytics.Alias{UserId: "019mr8mf4r", AnonymousId: "anon-1", PreviousId: "jo@example.com", Context: context, Integrations: only, Message: at("m-alias")},
		// The following calls have only the required fields.
		&analytics.Identify{UserId: "u", Message: at("m-1")},
		&analytics.Track{AnonymousId: "a", Event: "e", Properties: map[string]interface{}{}, Message: at("m-2")},
		&analytics.Page{UserId: "u", Message: at("m-3")},
		&analytics.Screen{AnonymousId: "a", Attrs: []slog.Attr{slog.Group("empty")}, Message: at("m-4")},
		&analytics.Group{UserId: "u", GroupId: "g", Message: at("m-5")},
		&analytics.Alias{UserId: "u", PreviousId: "p", Message: analytics.Message{MessageId: "m-6", Timestamp: "2024-02-29", SentAt: "20240229T010203Z"}},
	}
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{MaxInFlight: 1})
		for _, call := range calls {
			require.NoError(t, client.Enqueue(t.Context(), call))
		}
		require.NoError(t, client.Close())
		require.Len(t, c.all(), 1)
		got := uuids.ReplaceAll(c.all()[0].raw, []byte("00000000-0000-7000-8000-000000000000"))
		want, err := os.ReadFile("testdata/wire/batch.json")
		require.NoError(t, err)
		// In the file, each call is on its own line.
		require.Empty(t, cmp.Diff(string(bytes.ReplaceAll(want, []byte("\n"), nil)), string(got)))
	})
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

func TestMessageIdsAndTimesAreFilledIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{})
		m := &analytics.Track{Event: "again", UserId: "u"}
		before := *m
		for range 3 {
			require.NoError(t, client.Track(m))
			time.Sleep(1500 * time.Microsecond)
		}
		require.Equal(t, before, *m, "the caller's message was written to")
		require.NoError(t, client.Close())
		seen := map[interface{}]bool{}
		for i, call := range c.all()[0].body.Batch {
			require.Regexp(t, uuids, call["messageId"])
			require.False(t, seen[call["messageId"]], "an id came twice")
			seen[call["messageId"]] = true
			require.Equal(t, []string{"2000-01-01T00:00:00.000Z", "2000-01-01T00:00:00.001Z", "2000-01-01T00:00:00.003Z"}[i], call["timestamp"])
		}
		require.Regexp(t, uuids, c.all()[0].body.MessageId)
	})
}

// The caller may change a message after the call has returned.
func TestMessageIsNotReadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{})
		inner := map[string]interface{}{"n": 0}
		m := &analytics.Track{UserId: "u", Properties: map[string]interface{}{"inner": inner}, Context: map[string]interface{}{}}
		for i := range 5 {
			m.Event = name("e", i)
			inner["n"] = i
			m.Context["i"] = i
			untouched := maps.Clone(m.Properties)
			require.NoError(t, client.Track(m))
			require.Equal(t, untouched, m.Properties)
		}
		inner["n"] = "changed"
		m.Event = "changed"
		require.NoError(t, client.Close())
		for i, call := range c.all()[0].body.Batch {
			require.Equal(t, name("e", i), call["event"])
			require.EqualValues(t, i, call["properties"].(map[string]interface{})["inner"].(map[string]interface{})["n"])
			require.EqualValues(t, i, call["context"].(map[string]interface{})["i"])
		}
	})
}

func TestIntegrationsAreAssignable(t *testing.T) {
	m := analytics.Track{Integrations: analytics.NewIntegrations().EnableAll().Disable("A").Set("B", map[string]interface{}{"k": 1})}
	require.Equal(t, map[string]interface{}{"All": true, "A": false, "B": map[string]interface{}{"k": 1}}, m.Integrations)
}
