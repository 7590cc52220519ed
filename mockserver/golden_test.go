package mockserver_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// The diff names exactly the added, removed or changed call.
func TestGoldenNamesDifferingCalls(t *testing.T) {
	file := []string{
		`{"type":"page","name":"Home","anonymousId":"%1"}`,
		`{"type":"page","name":"Pricing","anonymousId":"%1"}`,
		`{"type":"page","name":"Home","anonymousId":"%2"}`,
		`{"type":"track","event":"Signed Up","userId":"u","anonymousId":"%1"}`,
		`{"type":"track","event":"Bought","userId":"u","properties":{"items":[{"n":1,"id":"x1"}],"total":3}}`,
		`{"type":"track","event":"Bought","userId":"u","properties":{"items":[{"n":2,"id":"x2"}],"total":9}}`,
		`{"type":"identify","userId":"u"}`,
	}
	without := func(i int) []string { return slices.Delete(slices.Clone(file), i, i+1) }
	with := func(i int, from, to string) []string {
		calls := slices.Clone(file)
		calls[i] = strings.Replace(calls[i], from, to, 1)
		return calls
	}
	moved := []string{file[2], file[6], file[1], file[5], file[3], file[0], file[4]}
	for _, test := range []struct {
		name   string
		golden mockserver.Golden
		calls  []string
		want   []string // nil if equal
	}{
		{"the same", mockserver.Golden{}, file, nil},
		{"another order", mockserver.Golden{}, moved, nil},
		{"the same order", mockserver.Golden{KeepOrder: true}, file, nil},
		{"an order that is to be kept", mockserver.Golden{KeepOrder: true}, []string{file[0], file[1], file[2], file[4], file[3], file[5], file[6]}, []string{
			`! track "Signed Up"`,
		}},
		{"one of a kind is missing", mockserver.Golden{}, without(1), []string{
			`user 2, userId "u"`, `- page "Pricing" is missing`,
		}},
		{"one of two of a kind is missing", mockserver.Golden{}, without(4), []string{
			`user 1, userId "u"`, `- track "Bought" is missing`,
		}},
		{"the first in its order is missing", mockserver.Golden{KeepOrder: true}, without(0), []string{
			`user 2, userId "u"`, `- page "Home" is missing`,
		}},
		{"one more", mockserver.Golden{}, append([]string{`{"type":"alias","userId":"u","previousId":"p"}`}, file...), []string{
			`user 1, userId "u"`, `+ alias is new`,
		}},
		{"a property", mockserver.Golden{}, with(5, `"total":9`, `"total":10`), []string{
			`user 1, userId "u"`, `! track "Bought"`, `      properties.total is 10, want 9`,
		}},
		{"both of a kind", mockserver.Golden{}, with(4, `"n":1`, `"n":7`), []string{
			`user 1, userId "u"`, `! track "Bought"`, `      properties.items[0].n is 7, want 1`,
		}},
		{"an event of another name", mockserver.Golden{}, with(6, `"identify"`, `"group","groupId":"g"`), []string{
			`user 1, userId "u"`, `+ group is new`, `- identify is missing`,
		}},
		{"what differs in an array", mockserver.Golden{Without: []string{"properties.items.id", "properties.total.not", "userId.not"}}, with(5, "x2", "x3"), nil},
		{"an ID that is kept", mockserver.Golden{KeepIDs: true}, with(2, "%2", "%1"), []string{
			`user 1, userId "u"`, `! page "Home"`, `      anonymousId is "one", want "two"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
			run := func(calls []string, one, two string) {
				srv.Clear()
				for i, call := range calls {
					call = strings.NewReplacer("%1", one, "%2", two).Replace(call)
					if test.golden.KeepIDs {
						call = fmt.Sprintf(`{"messageId":"id-%d",%s`, i, call[1:])
					}
					require.Equal(t, http.StatusOK, serve(srv.Engine(), http.MethodPost, "/v1/batch", `{"batch":[`+call+`]}`).Code)
				}
			}
			path := filepath.Join(t.TempDir(), "calls.json")
			update := test.golden
			update.Update = true
			run(file, "one", "two")
			srv.Golden(t, path, update)
			if test.golden.KeepIDs {
				run(test.calls, "one", "two")
			} else {
				run(test.calls, "first", "second")
			}
			failure := judge(func(t mockserver.TB) { srv.Golden(t, path, test.golden) })
			_, failure, _ = strings.Cut(failure, "\n\n") // after the number of differences
			failure, _, _ = strings.Cut(failure, "\n\n")
			var lines []string
			for line := range strings.SplitSeq(failure, "\n") {
				if equal := strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "      "); line != "" && !equal {
					lines = append(lines, line)
				}
			}
			assert.Equal(t, test.want, lines)
		})
	}
}

// The diff checks that the same calls belong to one visitor, even if the IDs differ.
func TestGoldenDistinguishesVisitors(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	run := func(visitors ...string) {
		srv.Clear()
		for i, visitor := range visitors {
			serve(srv.Engine(), http.MethodPost, "/v1/page", fmt.Sprintf(`{"name":"%d","anonymousId":%q}`, i, visitor))
		}
	}
	path := filepath.Join(t.TempDir(), "calls.json")
	run("a", "a", "b")
	srv.Golden(t, path, mockserver.Golden{Update: true})
	run("x", "x", "y")
	srv.Golden(t, path, mockserver.Golden{})
	run("x", "y", "y")
	failure := judge(func(t mockserver.TB) { srv.Golden(t, path, mockserver.Golden{}) })
	assert.Contains(t, failure, "- page \"1\" is missing\n\nuser 2, anonymousId \"<anonymousId>\"\n+ page \"1\" is new")
}

// visitable returns a collector, and a function that replaces its calls with page calls. A visit is the
// visitor's ID, which is one letter, and the name of the page.
func visitable(t *testing.T) (srv *mockserver.Server, run func(visits string)) {
	srv = mockserver.RunT(t, mockserver.Config{InProcess: true})
	return srv, func(visits string) {
		srv.Clear()
		for visit := range strings.FieldsSeq(visits) {
			serve(srv.Engine(), http.MethodPost, "/v1/page", fmt.Sprintf(`{"name":%q,"anonymousId":%q}`, visit[1:], visit[:1]))
		}
	}
}

// With KeepOrder, the order of the visitors matters, even if their calls are equal.
func TestGoldenKeepsOrderOfVisitors(t *testing.T) {
	srv, run := visitable(t)
	path := filepath.Join(t.TempDir(), "calls.json")
	run("aHome bHome aPricing")
	srv.Golden(t, path, mockserver.Golden{Update: true, KeepOrder: true})
	run("xHome yHome xPricing")
	srv.Golden(t, path, mockserver.Golden{KeepOrder: true})
	run("xHome yHome yPricing")
	srv.Golden(t, path, mockserver.Golden{})
	failure := judge(func(t mockserver.TB) { srv.Golden(t, path, mockserver.Golden{KeepOrder: true}) })
	assert.Contains(t, failure, "the same calls arrived in another order\n\n! page \"Pricing\"")
}

// Calls of visitors with equal calls may arrive in any order.
func TestGoldenWithEqualVisitors(t *testing.T) {
	srv, run := visitable(t)
	path := filepath.Join(t.TempDir(), "calls.json")
	run("aHome aPricing bHome bPricing cHome")
	srv.Golden(t, path, mockserver.Golden{Update: true})
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, visits := range []string{
		"xHome xPricing yHome yPricing zHome", "zHome xHome yHome yPricing xPricing", "yPricing xHome zHome xPricing yHome", "xPricing yPricing yHome xHome zHome",
	} {
		run(visits)
		srv.Golden(t, path, mockserver.Golden{})
		srv.Golden(t, path, mockserver.Golden{Update: true})
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(written), string(again))
	}
	run("xHome xPricing yHome zPricing zHome")
	srv.Golden(t, path, mockserver.Golden{})
	run("xHome xPricing yHome yPricing yHome")
	assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, path, mockserver.Golden{}) }), "+ page \"Home\" is new")
}

func TestGoldenWithoutCalls(t *testing.T) {
	srv, run := visitable(t)
	path := filepath.Join(t.TempDir(), "calls.json")
	for _, golden := range []mockserver.Golden{{}, {KeepOrder: true}} {
		run("")
		golden.Update = true
		srv.Golden(t, path, golden)
		golden.Update = false
		srv.Golden(t, path, golden)
		run("aHome")
		assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, path, golden) }), "+ page \"Home\" is new")
	}
}

func TestGoldenWithoutType(t *testing.T) {
	srv, run := visitable(t)
	path := filepath.Join(t.TempDir(), "calls.json")
	golden := mockserver.Golden{Without: []string{"type"}}
	run("aHome aPricing")
	update := golden
	update.Update = true
	srv.Golden(t, path, update)
	srv.Golden(t, path, golden)
	run("aHome aContact")
	assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, path, golden) }), "! call\n      name is \"Contact\", want \"Pricing\"")
}

func TestInvalidGoldenFiles(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	path := filepath.Join(t.TempDir(), "calls.json")
	for text, want := range map[string]string{"{": "not valid JSON", "{}": "not an array of calls", `[{},1]`: "element 1 is not a call"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		failure := judge(func(t mockserver.TB) { srv.Golden(t, path, mockserver.Golden{}) })
		assert.Contains(t, failure, "calls.json: "+want)
	}
}
