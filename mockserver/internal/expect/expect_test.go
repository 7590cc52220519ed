package expect_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/expect"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

var update = flag.Bool("update", false, "write the golden files")

// parse parses a valid document.
func parse(t *testing.T, document string) *expect.Request {
	t.Helper()
	v, err := jsondiff.Decode([]byte(document))
	require.NoError(t, err)
	r, problems := expect.Parse(v)
	require.Empty(t, problems)
	return r
}

// call returns an accepted call.
func call(t *testing.T, body string) *expect.Call {
	t.Helper()
	v, err := jsondiff.Decode([]byte(body))
	require.NoError(t, err)
	text := func(name string) string {
		s, _ := v.(map[string]any)[name].(string)
		return s
	}
	return &expect.Call{Call: tracking.Call{
		ID: text("messageId"), Source: "web", Type: text("type"), Event: text("event"), Name: text("name"),
		UserID: text("userId"), AnonymousID: text("anonymousId"), GroupID: text("groupId"), Body: []byte(body),
	}}
}

// bad returns a rejected call.
func bad(code, body string) *expect.Call {
	return &expect.Call{Call: tracking.Call{Source: "web", Type: "track", Body: []byte(body)}, Code: tracking.Code(code), Message: "why " + code}
}

const order = `{"type":"track","event":"Order Completed","userId":"u1","messageId":"m1","properties":{"total":25.5,"currency":"EUR","items":[{"sku":"a"},{"sku":"b"}],"paid":true,"coupon":null,"$os":"Linux"},"context":{"app":{"version":"1.2.0"}}}`

func TestOneExpectation(t *testing.T) {
	for expectation, holds := range map[string]bool{
		`{}`:                                                  true,
		`{"type":"track"}`:                                    true,
		`{"type":"page"}`:                                     false,
		`{"event":"Order Completed"}`:                         true,
		`{"event":{"$regexp":"^Order "}}`:                     true,
		`{"event":{"$regexp":"^order "}}`:                     false,
		`{"userId":"u1","source":"web"}`:                      true,
		`{"source":"ios"}`:                                    false,
		`{"anonymousId":{"$absent":true}}`:                    true,
		`{"userId":{"$absent":true}}`:                         false,
		`{"userId":{"$any":true}}`:                            true,
		`{"userId":{"$equals":3}}`:                            false,
		`{"groupId":null}`:                                    false,
		`{"groupId":{"$any":true}}`:                           false,
		`{"properties":{"total":25.5}}`:                       true,
		`{"properties":{"total":25.50}}`:                      true,
		`{"properties":{"total":"25.5"}}`:                     false,
		`{"properties":{"total":{"$min":25,"$max":26}}}`:      true,
		`{"properties":{"total":{"$min":25.5}}}`:              true,
		`{"properties":{"total":{"$max":25}}}`:                false,
		`{"properties":{"currency":{"$min":1}}}`:              false,
		`{"properties":{"total":{"$type":"number"}}}`:         true,
		`{"properties":{"total":{"$type":"integer"}}}`:        false,
		`{"properties":{"total":{"$type":"string"}}}`:         false,
		`{"properties":{"paid":{"$type":"boolean"}}}`:         true,
		`{"properties":{"items":{"$type":"array"}}}`:          true,
		`{"properties":{"coupon":{"$type":"null"}}}`:          true,
		`{"properties":{"coupon":{"$any":true}}}`:             true,
		`{"properties":{"coupon":{"$absent":true}}}`:          false,
		`{"properties":{"none":{"$absent":true}}}`:            true,
		`{"properties":{"items":[{"sku":"a"},{"sku":"b"}]}}`:  true,
		`{"properties":{"items":[{"sku":{"$any":true}},{}]}}`: true,
		`{"properties":{"items":[{"sku":"a"}]}}`:              false,
		`{"properties":{"$os":"Linux"}}`:                      true,
		`{"properties":{"$equals":{"total":25.5}}}`:           false,
		`{"context":{"app":{"$equals":{"version":"1.2.0"}}}}`: true,
		`{"context":{"app":{"$type":"object"}}}`:              true,
		`{"properties":{"$type":"object"}}`:                   true,
		`{"traits":{"$absent":true}}`:                         true,
		`{"traits":{}}`:                                       false,
		`{"bad":true}`:                                        false,
	} {
		t.Run(expectation, func(t *testing.T) {
			c := expect.NewChecker(parse(t, `{"expect":[`+expectation+`]}`))
			assert.Equal(t, expect.Waiting, c.Status())
			c.Add(call(t, order))
			assert.Equal(t, holds, c.Status() == expect.Holding)
			assert.Equal(t, holds, c.Report([]*expect.Call{call(t, order)}, 0).OK)
		})
	}
}

func TestCounts(t *testing.T) {
	for document, statuses := range map[string]string{ // keys are documents; values are the statuses after 0, 1, 2 and 3 calls
		`{"expect":[{"type":"page"}]}`:                                "WHHH",
		`{"expect":[{"type":"page","count":2}]}`:                      "WWHB",
		`{"expect":[{"type":"page","count":0}]}`:                      "HBBB",
		`{"expect":[{"type":"page","atLeast":2}]}`:                    "WWHH",
		`{"expect":[{"type":"page","atMost":1}]}`:                     "HHBB",
		`{"expect":[{"type":"page","atLeast":1,"atMost":2}]}`:         "WHHB",
		`{"expect":[{"type":"page"},{"type":"track"}]}`:               "WWWW",
		`{"expect":[{"type":"page"},{"bad":true,"count":0}]}`:         "WHHH",
		`{"expect":[{"type":"page"},{"type":"page"}]}`:                "WHHH",
		`{"ordered":true,"expect":[{"type":"page"},{"type":"page"}]}`: "WWHH",
	} {
		t.Run(document, func(t *testing.T) {
			c := expect.NewChecker(parse(t, document))
			got := ""
			for range statuses {
				got += string("WHB"[c.Status()])
				c.Add(call(t, `{"type":"page"}`))
			}
			assert.Equal(t, statuses, got)
		})
	}
}

func TestOrder(t *testing.T) {
	const document = `{"ordered":true,"expect":[{"event":"A","count":2},{"event":"B"},{"event":"X","count":0},{"event":"C"}]}`
	for events, want := range map[string]expect.Status{
		"AABC": expect.Holding, "ABABC": expect.Holding, "AAZBZC": expect.Holding, "AABCB": expect.Holding,
		"ABAC": expect.Waiting, "CAAB": expect.Waiting, "BAAC": expect.Waiting, "AABCA": expect.Broken, "XAABC": expect.Broken,
	} {
		c := expect.NewChecker(parse(t, document))
		for _, event := range events {
			c.Add(call(t, fmt.Sprintf(`{"type":"track","event":"%c"}`, event)))
		}
		assert.Equal(t, want, c.Status(), events)
		assert.Equal(t, want == expect.Holding, c.Report(nil, 0).OK, events)
	}
}

func TestRejectedCalls(t *testing.T) {
	parse(t, `{"expect":[{"bad":true,"type":"trakc"}]}`) // a rejected call can have any type
	c := expect.NewChecker(parse(t, `{"expect":[{"bad":true,"code":"event_not_defined","userId":"u"},{"type":"track","count":0}]}`))
	c.Add(bad("event_not_defined", `{"type":"track","userId":"u"}`))
	assert.Equal(t, expect.Waiting, c.Status(), "userId was not read of it")
	read := bad("event_not_defined", `{"type":"track","userId":"u"}`)
	read.UserID = "u"
	c.Add(read)
	assert.Equal(t, expect.Holding, c.Status())
	cut := bad("call_too_large", `{"type":"track","userId":"u","properties":{"a`)
	cut.UserID = "u"
	d := expect.NewChecker(parse(t, `{"expect":[{"bad":true,"userId":"u","type":"track","properties":{"$absent":true}}]}`))
	d.Add(cut)
	assert.Equal(t, expect.Holding, d.Status(), "what could be read of it counts")
}

func TestReports(t *testing.T) {
	calls := func(bodies ...string) (all []*expect.Call) {
		for _, b := range bodies {
			all = append(all, call(t, b))
		}
		return all
	}
	const page, signup = `{"type":"page","name":"Home","anonymousId":"a1"}`, `{"type":"track","event":"Signed Up","userId":"u1","properties":{"plan":"Free"}}`
	many := func(n int) (all []*expect.Call) {
		for i := range n {
			all = append(all, call(t, fmt.Sprintf(`{"type":"track","event":"Viewed","userId":"u%d"}`, i)))
		}
		return all
	}
	for name, c := range map[string]struct {
		document string
		calls    []*expect.Call
	}{
		"holds":      {`{"expect":[{"type":"page"},{"event":"Signed Up"}]}`, calls(page, signup)},
		"nothing":    {`{"expect":[{"event":"Signed Up","userId":"u1"}]}`, nil},
		"typo":       {`{"expect":[{"event":"Signed up","userId":"u1"}]}`, calls(page, signup)},
		"properties": {`{"expect":[{"type":"track","event":"Signed Up","properties":{"plan":"Enterprise","seats":{"$min":1,"$max":10},"coupon":{"$absent":true}}}]}`, calls(page, signup, `{"type":"track","event":"Signed Up","properties":{"plan":"Enterpris","seats":11,"coupon":"X"}}`)},
		"too-many":   {`{"expect":[{"event":"Viewed","count":1}]}`, many(30)},
		"none":       {`{"expect":[{"type":"page","count":0},{"bad":true,"count":0}]}`, append(calls(page), bad("no_user_anon_id", `{"type":"track","event":"E"}`))},
		"not-taken":  {`{"expect":[{"type":"track","event":"Signed Up"}]}`, append(calls(page), bad("no_user_anon_id", `{"type":"track","event":"Signed Up"}`))},
		"refused":    {`{"source":"web","expect":[{"event":"E"}]}`, []*expect.Call{{Call: tracking.Call{Body: []byte("{")}, Code: "invalid_json", Message: "invalid JSON at byte 1"}}},
		"order":      {`{"ordered":true,"expect":[{"type":"page"},{"event":"Signed Up"},{"type":"group"}]}`, calls(signup, page)},
		"hostile":    {`{"expect":[{"event":"E"}]}`, []*expect.Call{bad("unknown_type", "\x1b[31m{"), {Call: tracking.Call{Type: "a\nb\x1b[2J", Event: "\u202e\x00"}, Code: "unknown_type", Message: "m"}}},
	} {
		t.Run(name, func(t *testing.T) {
			request := parse(t, c.document)
			checker := expect.NewChecker(request)
			for _, call := range c.calls {
				if request.Source == "" || call.Source == request.Source {
					checker.Add(call)
				}
			}
			got := checker.Report(c.calls, 1500*time.Millisecond).Message + "\n"
			path := filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "go test -update writes it anew")
		})
	}
}

func TestParseErrors(t *testing.T) {
	for document, want := range map[string]string{
		`[]`:                             `document is an empty list: make it an object such as {"within":"10s","expect":[{"event":"Signed Up"}]}`,
		`{}`:                             `document has no expect: add a list of expectations, such as "expect":[{"event":"Signed Up"}]`,
		`{"expect":[]}`:                  `expect is an empty list: make it a list of 1 to 100 expectations`,
		`{"expect":{}}`:                  `expect is an object: make it a list of 1 to 100 expectations`,
		`{"expect":[3]}`:                 `expect[0] is 3: make it an object such as {"event":"Signed Up"}`,
		`{"expects":[{}],"expect":[{}]}`: `expects is not a known field: did you mean expect?`,
		`{"zzz":1,"expect":[{}]}`:        `zzz is not a known field: use within, settle, source, writeKey, ordered, expect`,
		`{"within":3,"expect":[{}]}`:     `within is 3: use a duration such as 500ms or 10s, of at most 5m`,
		`{"within":"1h","expect":[{}]}`:  `within is "1h": use a duration such as 500ms or 10s, of at most 5m`,
		`{"settle":"-1s","expect":[{}]}`: `settle is "-1s": use a duration such as 500ms or 10s, of at most 5m`,
		`{"ordered":1,"expect":[{}]}`:    `ordered is 1: use true or false`,
		`{"source":"","expect":[{}]}`:    `source is "": use a name`,
		`{"source":"a","writeKey":"b","expect":[{}]}`:           `writeKey conflicts with source: use one of them`,
		`{"expect":[{"evnt":"A"}]}`:                             `expect[0].evnt is not a known field: did you mean event?`,
		`{"expect":[{"userID":"A"}]}`:                           `expect[0].userID is not a known field: did you mean userId?`,
		`{"expect":[{"type":"trakc"}]}`:                         `expect[0].type is "trakc", an unknown type: did you mean track?`,
		`{"expect":[{"type":"delete"}]}`:                        `expect[0].type is "delete", an unknown type: use ` + strings.Join(fields.Types, ", "),
		`{"expect":[{"event":3}]}`:                              `expect[0].event is 3: make it a string, null, or a matcher such as {"$equals": 3}`,
		`{"expect":[{"properties":3}]}`:                         `expect[0].properties is 3: make it an object with the expected fields`,
		`{"expect":[{"count":-1}]}`:                             `expect[0].count is -1: use a whole number from 0`,
		`{"expect":[{"count":1.5}]}`:                            `expect[0].count is 1.5: use a whole number from 0`,
		`{"expect":[{"count":"1"}]}`:                            `expect[0].count is "1": use a whole number from 0`,
		`{"expect":[{"count":1,"atMost":2}]}`:                   `expect[0].atMost conflicts with count: use one of them`,
		`{"expect":[{"atLeast":3,"atMost":2}]}`:                 `expect[0].atMost is 2: use at least 3, the value of atLeast`,
		`{"expect":[{"bad":"yes"}]}`:                            `expect[0].bad is "yes": use true or false`,
		`{"expect":[{"code":"x"}]}`:                             `expect[0].code needs bad: only rejected calls have a code; add "bad":true`,
		`{"expect":[{"bad":true,"code":"event_not_defind"}]}`:   `expect[0].code is "event_not_defind", an unknown code: did you mean event_not_defined?`,
		`{"expect":[{"properties":{"a b":{"$regexp":"("}}}]}`:   `expect[0].properties["a b"].$regexp is "(": correct it: missing closing ): ` + "`(`" + `; the syntax is RE2`,
		`{"expect":[{"properties":{"a":[1,{"$type":"int"}]}}]}`: `expect[0].properties.a[1].$type is "int": use array, boolean, integer, null, number, object, string`,
		`{"expect":[{"properties":{"a":{"$min":"1"}}}]}`:        `expect[0].properties.a.$min is "1": use a number`,
		`{"expect":[{"properties":{"a":{"$min":2,"$max":1}}}]}`: `expect[0].properties.a.$max is 1: use at least 2, the value of $min`,
		`{"expect":[{"properties":{"a":{"$any":1}}}]}`:          `expect[0].properties.a.$any is 1: use true`,
		`{"expect":[{"properties":{"a":{"$any":true,"b":1}}}]}`: `expect[0].properties.a has $any, b: use one matcher, or $min with $max; to match an object with these fields, write {$equals: {…}}`,
		`{"expect":[{"properties":{"a":{"$regex":"x"}}}]}`:      `expect[0].properties.a.$regex is not a matcher: did you mean $regexp? To match a field of that name, write {$equals: {…}}`,
	} {
		t.Run(document, func(t *testing.T) {
			v, err := jsondiff.Decode([]byte(document))
			require.NoError(t, err)
			r, problems := expect.Parse(v)
			assert.Nil(t, r)
			require.Len(t, problems, 1)
			assert.Equal(t, want, problems[0].String())
		})
	}
}

func TestTooManyExpectations(t *testing.T) {
	v, err := jsondiff.Decode([]byte(`{"expect":[{}` + strings.Repeat(`,{}`, 100) + `]}`))
	require.NoError(t, err)
	_, problems := expect.Parse(v)
	require.Len(t, problems, 1)
	assert.Equal(t, "expect is a list of 101: make it a list of 1 to 100 expectations", problems[0].String())
}

// Problems contain little of their input, and their number is limited, because each contains its
// path.
func TestManyAndLongProblems(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	_, problems := expect.Parse(map[string]any{"expect": []any{map[string]any{long: 1, "event": map[string]any{"$regexp": "(" + long}}}})
	require.Len(t, problems, 2)
	for _, p := range problems {
		assert.Less(t, len(p.String()), 1000)
	}
	unknown := map[string]any{}
	for i := range 1000 {
		unknown[fmt.Sprint(i)] = 1
	}
	_, problems = expect.Parse(map[string]any{"expect": []any{unknown}})
	assert.Len(t, problems, 100)
}

// FuzzExpectations checks that any document is either rejected with a path and a hint, or can be
// compared with any call. It also checks that a call matches itself.
func FuzzExpectations(f *testing.F) {
	f.Add(`{"expect":[{"event":"A","properties":{"a":{"$min":1}}}]}`, order)
	f.Add(`{"within":"1s","ordered":true,"expect":[{"bad":true,"count":0},{"context":{"a":[{"$any":true}]}}]}`, `{"type":"\u0000"}`)
	f.Fuzz(func(t *testing.T, document, body string) {
		call := &expect.Call{Call: tracking.Call{Body: []byte(body)}}
		if v, err := jsondiff.Decode([]byte(document)); err == nil {
			r, problems := expect.Parse(v)
			for _, p := range problems {
				assert.NotEmpty(t, p.Wrong)
				assert.NotEmpty(t, p.Hint)
				assert.NotEmpty(t, p.Field())
			}
			if r != nil {
				c := expect.NewChecker(r)
				c.Add(call)
				report := c.Report([]*expect.Call{call}, 0)
				assert.Equal(t, c.Status() == expect.Holding, report.OK)
				assert.NotEmpty(t, report.Message)
			}
		}
		if v, err := jsondiff.Decode([]byte(body)); err == nil {
			r, problems := expect.Parse(map[string]any{"expect": []any{map[string]any{"properties": map[string]any{"$equals": v}}}})
			require.Empty(t, problems)
			c := expect.NewChecker(r)
			c.Add(&expect.Call{Call: tracking.Call{Body: []byte(`{"properties":` + body + `}`)}})
			assert.Equal(t, expect.Holding, c.Status())
		}
	})
}
