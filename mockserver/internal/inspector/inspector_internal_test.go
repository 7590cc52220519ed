package inspector

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestLayOutMarksMembersAndKeepsDigits(t *testing.T) {
	lines := layOut([]byte(`{"a":12345678901234567890,"b":{"c":[1.10,-0,true,null,"x\u0041"]},"d":{},"e":[]}`), func(key string) (string, string) {
		if key == "b" {
			return "wrong", "why"
		}
		return "", ""
	})
	var text []string
	for _, l := range lines {
		line := ""
		for _, p := range l.Parts {
			line += p.Text
		}
		if l.Mark != "" {
			line += " ← " + l.Mark
		}
		text = append(text, line)
	}
	assert.Equal(t, strings.Split(`{
  "a": 12345678901234567890,
  "b": { ← wrong
    "c": [ ← wrong
      1.10, ← wrong
      -0, ← wrong
      true, ← wrong
      null, ← wrong
      "x\u0041" ← wrong
    ] ← wrong
  }, ← wrong
  "d": {},
  "e": []
}`, "\n"), text)
}

// FuzzLayOut lays any document out, and holds that nothing but white space is
// added to it or lost.
func FuzzLayOut(f *testing.F) {
	for _, doc := range []string{`{}`, `[]`, `{"a":[{"b":1.10}],"c":"\ud800"}`, `{"a":`, "nul", ` 1 `, "{\"\xff\":\"\x00\"}", strings.Repeat("[", 900) + strings.Repeat("]", 900)} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var out bytes.Buffer
		for _, l := range layOut(doc, markCorrected) {
			for _, p := range l.Parts {
				out.WriteString(p.Text)
			}
		}
		if json.Valid(doc) {
			want, got := new(bytes.Buffer), new(bytes.Buffer)
			require.NoError(t, json.Compact(want, doc))
			require.NoError(t, json.Compact(got, out.Bytes()))
			require.Equal(t, want.String(), got.String())
		}
	})
}

func TestVisible(t *testing.T) {
	for text, want := range map[string][]textPart{
		"":                   nil,
		"plain é 日本 👩‍👩‍👧":   {{Text: "plain é 日本 👩‍👩‍👧"}},
		"a\u202Eb":           {{Text: "a"}, {Code: "U+202E"}, {Text: "b"}},
		"\x00\uFEFF":         {{Code: "U+0000"}, {Code: "U+FEFF"}},
		"\xff\xfea\uFFFD":    {{Code: "FF"}, {Code: "FE"}, {Text: "a\uFFFD"}},
		"tab\tline\nkept":    {{Text: "tab\tline\nkept"}},
		"\u2028\U000E0041 x": {{Code: "U+2028"}, {Code: "U+E0041"}, {Text: " x"}},
	} {
		assert.Equal(t, want, visible(text), "%q", text)
	}
}

// FuzzVisible holds that every byte is either shown or named.
func FuzzVisible(f *testing.F) {
	f.Add("a\u202Eb\xff")
	f.Fuzz(func(t *testing.T, s string) {
		at := 0
		for _, p := range visible(s) {
			if p.Code == "" {
				require.Equal(t, s[at:at+len(p.Text)], p.Text)
				require.True(t, utf8.ValidString(p.Text))
				require.False(t, strings.ContainsFunc(p.Text, func(r rune) bool {
					return r != '\n' && r != '\t' && r != '\u200C' && r != '\u200D' && unicode.Is(unicode.Cf, r) || r < ' ' && r != '\n' && r != '\t'
				}))
				at += len(p.Text)
				continue
			}
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
		}
		require.Equal(t, len(s), at)
		require.LessOrEqual(t, utf8.RuneCountInString(text.Cut(3, s)), max(4, len(s)))
	})
}

func TestWordsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 412 * time.Microsecond: "412µs", 1234 * time.Microsecond: "1.2ms", 56789 * time.Microsecond: "57ms",
		12345 * time.Millisecond: "12.3s", 95 * time.Second: "1m35s", 4*time.Hour + 59*time.Second: "4h1m", -2 * time.Second: "-2s",
	} {
		assert.Equal(t, want, shortDuration(d))
	}
	assert.Equal(t, "1,234,567", text.GroupDigits(1234567))
	assert.Equal(t, "-1,234", text.GroupDigits(-1234))
	assert.Equal(t, "999", text.GroupDigits(999))
	assert.Equal(t, "1 call", text.Plural(1, "call", "calls"))
	assert.Equal(t, "2,000 calls", text.Plural(2000, "call", "calls"))
	assert.Equal(t, "ab…", text.Cut(2, "abc"))
	assert.Equal(t, "日本…", text.Cut(2, "日本語"))
	assert.Equal(t, "abc", text.Cut(3, "abc"))
	assert.Equal(t, `'it'\''s $HOME'`, shellWord("it's $HOME"))
	assert.Equal(t, "my-app", shellWord("my-app"))
	assert.Equal(t, "''", shellWord(""))
	assert.Equal(t, `"<a\"b\\>"`, quoted(`<a"b\>`))
}

func TestPanelShowsTheNewestAttempts(t *testing.T) {
	var all []tracking.Attempt
	for n := range 30 {
		for _, name := range []string{"hook", "other"} {
			all = append(all, tracking.Attempt{Destination: name, Attempt: webhook.Attempt{Number: n + 1, Time: time.Unix(int64(n), 0)}})
		}
	}
	d := callDestination{Name: "hook"}
	d.addAttempts(all)
	require.Len(t, d.Attempts, shownAttempts)
	assert.Equal(t, 30, d.Attempts[0].Number)
	assert.Equal(t, 10, d.Older)
}

func TestOddMembers(t *testing.T) {
	body := []byte(`{"type":"track","userID":"u","event":12,"anonymous_id":"a","Event":"E","properties":{"userID":1},"other":1,"integrations":{}}`)
	assert.Equal(t, []oddMember{{"userID", "userId"}, {"event", ""}, {"anonymous_id", "anonymousId"}, {"Event", "event"}}, oddMembers(body))
	assert.Empty(t, oddMembers([]byte(`[1]`)))
	record := &tracking.Record{Call: tracking.Call{Body: body}}
	assert.Contains(t, correctionsOf(record), correction{"userID is not read", "names are case sensitive: it would be userId"})
	assert.Contains(t, correctionsOf(record), correction{"event is read as text", "it came as a number"})
}

// A code that is added has a hint as well.
func TestEachCodeHasAHint(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../tracking/codes.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		constant, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		assert.NotEmpty(t, hints[tracking.Code(value)], "%s has no hint", constant.Names[0])
		codes++
		return false
	})
	assert.Len(t, hints, codes)
}

func TestFilterMatches(t *testing.T) {
	destinations := []engine.AttachedDestination{{Destination: tracking.Destination{Name: "hook"}}, {Destination: tracking.Destination{Name: "ios", Sources: []string{"ios"}}}}
	record := func(change func(*tracking.Record)) *history.Item {
		r := &tracking.Record{Call: tracking.Call{Source: "web", Type: "track", Event: "Order Completed", UserID: "ada", Body: []byte(`{"city":"Z\u00fcrich","plan":"PRO"}`)}}
		change(r)
		return &history.Item{Record: r}
	}
	plain := record(func(*tracking.Record) {})
	failed := record(func(r *tracking.Record) {
		r.Ends = []tracking.Ended{{Destination: "hook", Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: "answered 410"}}}
	})
	rejected := &history.Item{Rejection: &tracking.Rejection{Code: tracking.CodeNoUser, Message: "a call needs a userId", Body: []byte(`{"type":"page","name":"Docs"}`)}, Read: &tracking.Call{Type: "page", Name: "Docs"}}
	refused := &history.Item{Refusal: &event.Refusal{Code: tracking.CodeInvalidJSON, Path: "/v1/batch"}}
	for name, c := range map[string]struct {
		filter callFilter
		want   []*history.Item
	}{
		"none":        {callFilter{}, []*history.Item{plain, failed, rejected, refused}},
		"source":      {callFilter{Source: "web"}, []*history.Item{plain, failed}},
		"type":        {callFilter{Type: "page"}, []*history.Item{rejected}},
		"event":       {callFilter{Event: "COMPLETED"}, []*history.Item{plain, failed}},
		"page":        {callFilter{Event: "docs"}, []*history.Item{rejected}},
		"user":        {callFilter{User: "AD"}, []*history.Item{plain, failed}},
		"failed":      {callFilter{Status: "failed"}, []*history.Item{failed}},
		"pending":     {callFilter{Status: "pending"}, []*history.Item{plain}},
		"rejected":    {callFilter{Status: "rejected"}, []*history.Item{rejected, refused}},
		"nonsense":    {callFilter{Status: "nonsense"}, nil},
		"text":        {callFilter{Text: "pro"}, []*history.Item{plain, failed}},
		"escaped":     {callFilter{Text: "ZÜRICH"}, []*history.Item{plain, failed}},
		"reason":      {callFilter{Text: "410"}, []*history.Item{failed}},
		"code":        {callFilter{Text: "invalid_json"}, []*history.Item{refused}},
		"two at once": {callFilter{Event: "order", Status: "failed"}, []*history.Item{failed}},
	} {
		match := c.filter.matcher(destinations)
		var got []*history.Item
		for _, i := range []*history.Item{plain, failed, rejected, refused} {
			if match(i) {
				got = append(got, i)
			}
		}
		assert.Equal(t, c.want, got, name)
	}
}
