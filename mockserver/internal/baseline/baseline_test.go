package baseline_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/baseline"
)

var update = flag.Bool("update", false, "write the golden files")

// record records calls, one per line.
func record(t testing.TB, calls string) *baseline.File {
	t.Helper()
	var bodies []json.RawMessage
	for line := range strings.Lines(calls) {
		if line = strings.TrimSpace(line); line != "" {
			bodies = append(bodies, []byte(line))
		}
	}
	f, err := baseline.Record(bodies)
	require.NoError(t, err)
	return f
}

// stored returns a file after it was written and read.
func stored(t testing.TB, f *baseline.File) *baseline.File {
	t.Helper()
	read, err := baseline.Parse(f.Encode())
	require.NoError(t, err, "%s", f.Encode())
	return read
}

// first is the run that other runs are compared with.
const first = `
	{"type":"page","name":"Home","anonymousId":"0d8f3c1e-6a55-4d9e-b3ad-1f7f3a9c2b10","messageId":"m1","timestamp":"2026-11-26T10:00:00.001Z","context":{"page":{"url":"http://localhost:3417/"},"library":{"name":"analytics.js","version":"4.1.0"}}}
	{"type":"page","name":"Pricing","anonymousId":"0d8f3c1e-6a55-4d9e-b3ad-1f7f3a9c2b10","messageId":"m2","timestamp":"2026-11-26T10:00:00.002Z"}
	{"type":"identify","userId":"user-123","anonymousId":"0d8f3c1e-6a55-4d9e-b3ad-1f7f3a9c2b10","messageId":"m3","timestamp":"2026-11-26T10:00:00.003Z","traits":{"plan":"Enterprise","createdAt":"2026-11-26T10:00:00Z"}}
	{"type":"track","event":"Signed Up","userId":"user-123","messageId":"m4","timestamp":"2026-11-26T10:00:00.004Z","properties":{"plan":"Enterprise","seats":3,"referrer":null}}
	{"type":"track","event":"Order Completed","userId":"user-123","messageId":"m5","timestamp":"2026-11-26T10:00:00.005Z","properties":{"orderId":"7f0c5e2a9b8d4c61","total":25.5,"items":[{"sku":"a"},{"sku":"b"}],"durationMs":812}}
	{"type":"track","event":"Report Sent","userId":"job-7","messageId":"m6","timestamp":"2026-11-26T10:00:00.006Z","properties":{"rows":10}}
`

func TestDifferences(t *testing.T) {
	second := strings.NewReplacer("0d8f3c1e", "99999999", `"messageId":"m`, `"messageId":"n`, "2026-11-26T10:", "2027-01-02T11:", ":3417", ":80", "4.1.0", "5.0", "7f0c5e2a9b8d4c61", "1111111111111111").Replace(first)
	lines := strings.Split(strings.TrimSpace(second), "\n")
	run := func(order ...int) string {
		var calls []string
		for i, n := range order {
			c := lines[n]
			at := strings.Index(c, `"timestamp":"`) + len(`"timestamp":"`)
			calls = append(calls, c[:at]+time.UnixMilli(int64(i)).UTC().Format(time.RFC3339Nano)+c[at+strings.IndexByte(c[at:], '"'):])
		}
		return strings.Join(calls, "\n")
	}
	all := run(0, 1, 2, 3, 4, 5)
	for name, calls := range map[string]string{
		"equal":        all,
		"interleaved":  run(5, 0, 1, 2, 3, 4),
		"none":         "",
		"missing":      run(0, 1, 2, 4, 5),
		"new":          all + "\n" + `{"type":"track","event":"Trial Started","userId":"user-123","properties":{"days":14},"timestamp":"2027-01-02T12:00:00Z"}`,
		"moved":        run(0, 1, 3, 2, 4, 5),
		"moved-first":  run(4, 0, 1, 2, 3, 5),
		"value":        strings.Replace(all, `"total":25.5`, `"total":25`, 1),
		"type":         strings.Replace(all, `"total":25.5`, `"total":"25.5"`, 1),
		"property":     strings.Replace(all, `"seats":3,"referrer":null`, `"seat":3`, 1),
		"format":       strings.Replace(all, `1111111111111111`, `1234`, 1),
		"array":        strings.Replace(all, `,{"sku":"b"}`, ``, 1),
		"renamed":      strings.Replace(all, `Signed Up`, `signed_up`, 1),
		"anonymous":    strings.Replace(all, `"userId":"user-123","anonymousId":"99999999-`, `"userId":"user-123","anonymousId":"88888888-`, 1),
		"missing-user": run(0, 1, 2, 3, 4),
		"new-user":     all + "\n" + `{"type":"page","name":"Home","anonymousId":"0d8f3c1e-6a55-4d9e-b3ad-111111111111"}` + "\n" + `{"type":"page","name":"Home","anonymousId":"0d8f3c1e-6a55-4d9e-b3ad-222222222222"}`,
		"other-user":   strings.Replace(all, "job-7", "job-8", 1),
		"pull-request": strings.NewReplacer(`"total":25.5`, `"total":"25.5"`, `"seats":3,`, ``).Replace(run(0, 2, 3, 4, 5)) + "\n" +
			`{"type":"track","event":"Coupon Applied","userId":"user-123","properties":{"code":"SPRING"},"timestamp":"1970-01-01T00:00:00.0025Z"}`,
		"several": strings.NewReplacer(`"rows":10`, `"rows":11`, `"plan":"Enterprise","seats"`, `"plan":"Free","seats"`).Replace(run(0, 2, 1, 3, 5)),
	} {
		t.Run(name, func(t *testing.T) {
			report := baseline.Compare(record(t, calls), stored(t, record(t, first)))
			assert.Equal(t, name == "equal" || name == "interleaved", report.OK)
			golden(t, name, report.Text()+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "-update writes the file")
}

func TestFileFormat(t *testing.T) {
	golden(t, "file", string(record(t, first).Encode()))
}

// TestWildcards checks the values that wildcards match, and that a file contains them after two
// runs with different values.
func TestWildcards(t *testing.T) {
	const call = `{"type":"track","event":"E","userId":"u","properties":{%s}}`
	for _, c := range []struct {
		first, second, wildcard string   // values of a property; the second may be missing
		equal, different        []string // values that match the wildcard, and values that do not
	}{
		{`1`, `2`, `"<number>"`, []string{`3`, `-1.5`, `1732612345`}, []string{`"3"`, `null`, ``}},
		{`1`, `1732612345`, `"<number>"`, []string{`3`}, []string{`"x"`}},
		{`"a"`, `"b"`, `"<string>"`, []string{`""`, `"7f0c5e2a9b8d4c61"`}, []string{`1`, `null`, `1732612345`, ``}},
		{`"7f0c5e2a9b8d4c61"`, `"b"`, `"<string>"`, []string{`""`}, []string{`1`}},
		{`true`, `false`, `"<boolean>"`, []string{`true`}, []string{`1`, ``}},
		{`[1]`, `[1,2]`, `"<array>"`, []string{`[]`}, []string{`{}`, ``}},
		{`[1,{"a":1}]`, `[1,{"a":2}]`, `[1,{"a":"<number>"}]`, []string{`[1,{"a":3}]`}, []string{`[2,{"a":1}]`}},
		{`{"a":1}`, `{"a":2}`, `{"a":"<number>"}`, []string{`{"a":3}`}, []string{`{}`, `{"a":3,"b":1}`}},
		{`1`, `"1"`, `"<any>"`, []string{`null`, `{}`}, []string{``}},
		{`null`, `1`, `"<any>"`, []string{`2`, `null`}, []string{``}},
		{`{}`, `[]`, `"<any>"`, []string{`2`}, []string{``}},
		{`1`, ``, `"<optional>"`, []string{`2`, `"x"`, ``}, nil},
		{`1.50`, `1.5`, `1.5`, []string{`1.50`}, []string{`1.51`}},
		{`"<number>"`, `"<number>"`, `"<string>"`, []string{`"x"`}, []string{`1`}},
	} {
		t.Run(c.first+" and "+c.second, func(t *testing.T) {
			run := func(value string) *baseline.File {
				if value != "" {
					value = `"x":` + value
				}
				return record(t, fmt.Sprintf(call, value))
			}
			for _, order := range [][]string{{c.first, c.second}, {c.second, c.first}} {
				file, err := baseline.Merge(run(order[1]), stored(t, run(order[0])), true)
				require.NoError(t, err)
				if c.first != `1.50` {
					var compact bytes.Buffer
					require.NoError(t, json.Compact(&compact, file.Encode()))
					assert.Contains(t, compact.String(), `"x":`+c.wildcard+`}`)
				}
				file = stored(t, file)
				for _, value := range append(c.equal, c.first, c.second) {
					assert.True(t, baseline.Compare(run(value), file).OK, value)
					kept, err := baseline.Merge(run(value), file, false)
					require.NoError(t, err)
					assert.Equal(t, strings.Contains(c.wildcard, "<"), bytes.Equal(file.Encode(), kept.Encode()) && strings.Contains(c.wildcard, "<"), value)
				}
				for _, value := range c.different {
					assert.False(t, baseline.Compare(run(value), file).OK, value)
				}
			}
		})
	}
}

// TestWideningAnOrder checks that the order of a user's calls does not matter after two runs with
// different orders.
func TestWideningAnOrder(t *testing.T) {
	run := func(events string) *baseline.File {
		var calls strings.Builder
		for i, e := range strings.Fields(events) {
			fmt.Fprintf(&calls, `{"type":"track","event":%q,"userId":"u","timestamp":"2026-01-01T00:00:0%dZ","properties":{"n":%s}}`+"\n", e[:1], i, e[1:])
		}
		return record(t, calls.String())
	}
	file, err := baseline.Merge(run("B2 A1 A2 C1"), stored(t, run("A1 B1 C1 A2")), true)
	require.NoError(t, err)
	file = stored(t, file)
	assert.Contains(t, string(file.Encode()), `"order": "any"`)
	for _, events := range []string{"A1 B1 C1 A2", "A2 C1 A1 B7"} {
		assert.True(t, baseline.Compare(run(events), file).OK, baseline.Compare(run(events), file).Text())
		kept, err := baseline.Merge(run(events), file, false)
		require.NoError(t, err)
		assert.Equal(t, string(file.Encode()), string(kept.Encode()))
	}
	report := baseline.Compare(run("C1 A3 A2 D1"), file)
	golden(t, "any-order", report.Text()+"\n")
	_, err = baseline.Merge(run("A1 B1 C1"), file, true)
	require.ErrorContains(t, err, "the runs have different calls, and wildcards replace only values:\n1 difference")
	_, err = baseline.Merge(record(t, first), file, true)
	require.ErrorContains(t, err, "the runs have different calls")
}

// TestMergeAdoptsChanges checks that a file has the calls of the new run, and that the position of
// its users does not change.
func TestMergeAdoptsChanges(t *testing.T) {
	file := stored(t, record(t, first))
	run := strings.NewReplacer(`"name":"Home"`, `"name":"Start"`, `"rows":10`, `"rows":11`).Replace(first) +
		`{"type":"page","name":"A","anonymousId":"x"}`
	merged, err := baseline.Merge(record(t, run), file, false)
	require.NoError(t, err)
	assert.True(t, baseline.Compare(record(t, run), stored(t, merged)).OK)
	diff := baseline.Compare(merged, file)
	assert.Len(t, diff.Differences, 4, diff.Text())
	assert.True(t, bytes.HasSuffix(merged.Encode(), []byte(`"type": "page"
        }
      ]
    }
  ]
}
`)), "new users are last")
}

// A scenario is a random test run.
type scenario struct{ random *rand.Rand }

// value returns a constant value, or a value with a recognized format that differs between runs.
func (s scenario) value(fresh *rand.Rand) string {
	hex := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "0123456789abcdef"[fresh.IntN(16)]
		}
		return string(b)
	}
	now := time.UnixMilli(1_700_000_000_000 + fresh.Int64N(1e10)).UTC()
	switch s.random.IntN(8) {
	case 0:
		return fmt.Sprintf(`"%s-%s-%s-%s-%s"`, hex(8), hex(4), hex(4), hex(4), hex(12))
	case 1:
		return fmt.Sprintf(`"id_%s"`, hex(16+s.random.IntN(2)))
	case 2:
		return fmt.Sprint(now.UnixMilli())
	case 3:
		return `"` + now.Format(time.RFC3339Nano) + `"`
	case 4:
		return fmt.Sprintf(`"http://localhost:%d/x"`, 1024+fresh.IntN(60000))
	case 5:
		return fmt.Sprintf(`[%d,{"a":"%s"}]`, s.random.IntN(3), hex(32))
	case 6:
		return fmt.Sprint(s.random.IntN(5))
	}
	return fmt.Sprintf("%q", "text "+fmt.Sprint(s.random.IntN(3)))
}

// calls returns the calls of a run in order of arrival. The seed determines the scenario; fresh
// determines IDs, times and the interleaving of users.
func calls(seed uint64, fresh *rand.Rand) (bodies []json.RawMessage) {
	s := scenario{rand.New(rand.NewPCG(seed, 0))}
	type stamped struct {
		at   time.Time
		body string
	}
	var all []stamped
	start := time.Date(2026, 11, 26, 0, 0, fresh.IntN(1e6), 0, time.UTC)
	for user := range 1 + s.random.IntN(4) {
		at := start.Add(time.Duration(fresh.IntN(5000)) * time.Millisecond)
		anonymous := fmt.Sprintf("%016x", fresh.Uint64())
		known := s.random.IntN(2) == 0
		for range 1 + s.random.IntN(5) {
			id := fmt.Sprintf(`"anonymousId":"%s"`, anonymous)
			switch {
			case known && s.random.IntN(2) == 0:
				id += fmt.Sprintf(`,"userId":"user-%d"`, user)
			case known && s.random.IntN(3) == 0:
				id = fmt.Sprintf(`"userId":"user-%d"`, user)
			case s.random.IntN(6) == 0:
				anonymous = fmt.Sprintf("%016x", fresh.Uint64()) // another user, or the same one if an ID links them
			}
			at = at.Add(time.Duration(1+fresh.IntN(1000)) * time.Millisecond)
			all = append(all, stamped{at, fmt.Sprintf(`{"type":"track","event":"E%d",%s,"messageId":"%x","timestamp":%q,"properties":{"p":%s,"q":%s}}`,
				s.random.IntN(3), id, fresh.Uint64(), at.Format(time.RFC3339Nano), s.value(fresh), s.value(fresh))})
		}
	}
	fresh.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all {
		bodies = append(bodies, []byte(c.body))
	}
	return bodies
}

// TestRunsOfOneScenarioAreEqual checks that the order of arrival, IDs and times do not affect the
// file.
func TestRunsOfOneScenarioAreEqual(t *testing.T) {
	for seed := range uint64(500) {
		fresh := rand.New(rand.NewPCG(seed, 1))
		first, err := baseline.Record(calls(seed, fresh))
		require.NoError(t, err)
		second, err := baseline.Record(calls(seed, fresh))
		require.NoError(t, err)
		if !bytes.Equal(first.Encode(), second.Encode()) {
			t.Fatalf("seed %d: the files differ:\n%s\n%s", seed, first.Encode(), second.Encode())
		}
		report := baseline.Compare(second, stored(t, first))
		require.True(t, report.OK, "seed %d: %s", seed, report.Text())
	}
}

// TestEachChangeIsReported checks that a random change of one call is a difference, and that
// adopting it removes the difference.
func TestEachChangeIsReported(t *testing.T) {
	for seed := range uint64(500) {
		fresh := rand.New(rand.NewPCG(seed, 1))
		first, err := baseline.Record(calls(seed, fresh))
		require.NoError(t, err)
		bodies := calls(seed, fresh)
		most := 2 // a new call has the properties of another one, so two calls may differ
		switch i := fresh.IntN(len(bodies)); fresh.IntN(3) {
		case 0:
			bodies = slices.Delete(bodies, i, i+1)
			most = len(bodies) + 1 // without the call, its user may be two users
		case 1:
			bodies = append(bodies, bodies[i])
		default:
			bodies[i] = bytes.Replace(bodies[i], []byte(`"p":`), []byte(`"changed":1,"p":`), 1)
		}
		second, err := baseline.Record(bodies)
		require.NoError(t, err)
		report := baseline.Compare(second, stored(t, first))
		require.False(t, report.OK, "seed %d", seed)
		require.LessOrEqual(t, len(report.Differences), most, "seed %d: %s", seed, report.Text())
		merged, err := baseline.Merge(second, first, false)
		require.NoError(t, err)
		require.True(t, baseline.Compare(second, stored(t, merged)).OK, "seed %d", seed)
	}
}

func TestLimits(t *testing.T) {
	_, err := baseline.Record(make([]json.RawMessage, baseline.MaxCalls+1))
	require.EqualError(t, err, "a baseline contains at most 5,000 calls, and the run has at least 5,001")
	_, err = baseline.Record([]json.RawMessage{[]byte(`{}`), []byte(`[]`)})
	require.EqualError(t, err, "call 2 is not a JSON object")
}

// TestManyCalls compares files of the maximum size. Comparing all pairs of calls would take minutes.
func TestManyCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	run := func(users int, add int) *baseline.File {
		var bodies []json.RawMessage
		for i := range baseline.MaxCalls {
			bodies = append(bodies, fmt.Appendf(nil, `{"type":"track","event":"E","userId":"u%d","properties":{"n":%d}}`, i%users, i+add))
		}
		f, err := baseline.Record(bodies)
		require.NoError(t, err)
		return f
	}
	// With a single user, the last call differs. With many users, each call differs.
	for users, want := range map[int]int{1: 1, baseline.MaxCalls: baseline.MaxCalls} {
		assert.Len(t, baseline.Compare(run(users, 1), run(users, 0)).Differences, want)
	}
}

// TestLongReports checks that a report has a limited number of lines, and counts the other
// differences.
func TestLongReports(t *testing.T) {
	run := func(calls, n int) *baseline.File {
		var b strings.Builder
		for i := range calls {
			fmt.Fprintf(&b, `{"type":"track","event":"E%d","userId":"u","properties":{"n":%d}}`+"\n", i, n)
		}
		return record(t, b.String())
	}
	for calls, want := range map[int]string{98: `      properties.n is 2, want 1`, 99: `      properties.n is 2, want 1`, 100: `and 1 more difference`, 1000: `and 901 more differences`} {
		report := strings.Split(baseline.Compare(run(calls, 2), run(calls, 1)).Text(), "\n")
		assert.Equal(t, want, report[len(report)-1], calls)
		assert.LessOrEqual(t, len(report), 202)
	}
}

// TestUsers checks which calls belong to one user.
func TestUsers(t *testing.T) {
	for calls, want := range map[string]int{
		`{"userId":"a"} {"userId":"b"}`:                                                                      2,
		`{"userId":1} {"userId":2} {"userId":"1"}`:                                                           2,
		`{"anonymousId":"x"} {"userId":"a","anonymousId":"x"} {"userId":"a"}`:                                1,
		`{"anonymousId":"x"} {"userId":"a"} {"userId":"a","previousId":"x"}`:                                 1,
		`{"userId":"a","anonymousId":"x"} {"userId":"b","anonymousId":"y"} {"userId":"b","anonymousId":"x"}`: 1,
		`{"userId":"a","anonymousId":"x"} {"userId":"b","anonymousId":"y"}`:                                  2,
		`{"anonymousId":"a"} {"userId":"a"}`:                                                                 1, // a previousId can be either
	} {
		assert.Len(t, record(t, strings.ReplaceAll(calls, " ", "\n")).Users, want, calls)
	}
}

func TestInvalidFiles(t *testing.T) {
	for file, want := range map[string]string{
		``:                                     "not a baseline: EOF",
		`{`:                                    "not a baseline: unexpected EOF",
		`[]`:                                   "not a baseline: cannot unmarshal array into Go value of type baseline.File",
		"{\"users\":[{\"user\":\"caf\xe9\"}]}": "not UTF-8: save the file in this encoding",
		"\uFEFF" + `{"users":[]}`:              "not a baseline of version 1: version is 0",
		`{"version":2,"users":[]}`:             "not a baseline of version 1: version is 2",
		`{"version":1} {}`:                     "not a baseline: unexpected data after the value at byte 13",
		`{"version":1,"users":[{}]}`:           "users[0].calls must be a list of at least one call, without null",
		`{"version":1,"users":[{"calls":[{}]},{"calls":[null]}]}`: "users[1].calls must be a list of at least one call, without null",
		`{"version":1,"users":[{"calls":[1]}]}`:                   "not a baseline: cannot unmarshal number into Go struct field user.users.calls of type baseline.call",
		`{"version":1,"users":[{"calls":[{}],"order":"none"}]}`:   `users[0].order is "none": use "any", or remove it`,
		`{"version":1,"users":[{"calls":[{}],"name":"x"}]}`:       `not a baseline: unknown field "name"`,
	} {
		_, err := baseline.Parse([]byte(file))
		assert.EqualError(t, err, want, file)
	}
	_, err := baseline.Parse(make([]byte, baseline.MaxBytes+1))
	assert.EqualError(t, err, "larger than 64 MiB")
	_, err = baseline.Parse([]byte(`{"version":1,"users":[{"calls":[{}` + strings.Repeat(`,{}`, baseline.MaxCalls) + `]}]}`))
	assert.EqualError(t, err, "contains more than 5,000 calls")
}

// FuzzParse checks that Parse does not fail unexpectedly, that a parsed file does not change when it
// is written and read, and that the other functions accept it.
func FuzzParse(f *testing.F) {
	f.Add([]byte(first), []byte(`{"version":1,"users":[{"calls":[{"type":"track","event":"E","properties":{"a":"<number>","b":"<optional>"}}],"order":"any"}]}`))
	f.Add([]byte(`{}`), []byte(`{"version":1,"users":[{"calls":[{"":"x"}]}]}`)) // a field without a name is not the event
	f.Fuzz(func(t *testing.T, run, file []byte) {
		if len(run)+len(file) > 2000 {
			return // the time is quadratic in the number of calls
		}
		parsed, err := baseline.Parse(file)
		if err != nil {
			require.LessOrEqual(t, len(err.Error()), 400)
			return
		}
		encoded := parsed.Encode()
		require.Equal(t, string(encoded), string(stored(t, parsed).Encode()))
		var bodies []json.RawMessage
		for line := range bytes.Lines(run) {
			bodies = append(bodies, line)
		}
		got, err := baseline.Record(bodies)
		if err != nil {
			return
		}
		merged, err := baseline.Merge(got, parsed, false)
		require.NoError(t, err)
		require.True(t, baseline.Compare(got, stored(t, merged)).OK)
		if widened, err := baseline.Merge(got, parsed, true); err == nil {
			require.True(t, baseline.Compare(got, stored(t, widened)).OK)
		}
	})
}
