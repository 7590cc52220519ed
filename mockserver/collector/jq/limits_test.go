package jq

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// expensive contains programs that exceed the work limit.
var expensive = []string{
	`def f: f; f`, `def f: f, f; f`, `def f: 1 + f; f`, `def f: [f]; f`, `[range(1e9)]`, `[range(1e9) | {a: .}]`, `"x" * 1e9`, `1e9 * "x"`,
	`"x" | . *= 1e9`, `"xxxx" * 1e5 | [., .]  | add | . * 2`, `reduce range(40) as $i ("x"; . + .)`,
	`reduce range(40) as $i ("x"; "\(.)\(.)")`, `reduce range(40) as $i ("x"; . += .)`, `reduce range(60) as $i (1; [., .])`,
	`reduce range(60) as $i (1; [., .]) | tojson`, `reduce range(60) as $i (1; [., .]) | . == .`, `reduce range(60) as $i (1; {a: ., b: .}) | @text`,
	`reduce range(60) as $i (1; [., .]) | flatten`, `reduce range(60) as $i (1; [., .]) | [[.], [.]] | sort`, `reduce range(60) as $i (1; [., .]) | error`,
	`[repeat(1)]`, `until(false; .)`, `[limit(1e9; repeat(1))] | length`, `[while(true; .)]`, `0 | [recurse(. + 1)]`,
	`[range(100000)] | map("x" * 1000) | add`, `add("x" * 500000 | ., ., ., ., ., ., .)`, `[range(10000)] | map("") | join("x" * 100000)`,
	`"x" * 100000 | [splits("")]`, `"x" * 400000 | gsub(""; "yy")`, `[range(20000)] | unique | length`,
	`"x" * 30000 | test("(x?){200}y")`, `"x" * 3000 | [match("(x?){200}y?"; "g")]`,
	`[range(30000)] - [range(30000; 60000)]`, `[range(20000)] as $a | $a | indices($a[0:10000])`, `"x" * 10000 | indices("x" * 5000 + "y")`,
	`[range(1e6)] | implode`, `setpath([1e9]; 1)`, `null | .[1e9] = 1`, `null | .[100000000] |= 1`, `[range(100) | null | .[10000] = .]`,
	`null | getpath([1e8]) = 1`, `null | nth(1e8) = 1`, `null | [1e8] as [$a] | .[$a] = 1`, `getpath([range(100000) | "a"])`, `null | pick(.[1e8])`,
	`[range(60000)] | . as $x | def f: $x[] | f; f`, `[range(10000)] as $x | [repeat($x | first(.[]))]`, `("x" * 100000) as $x | [repeat($x[1:2])]`,
	`[range(100)] | [., ., ., ., ., .] | [combinations]`, `@sh "\([range(100000)])"`, `[range(60000)] | tojson | fromjson | tojson`,
	`[range(65536)] | map({a: .}) | group_by(.a)`, `"x" * 1000000 | split("") | length`, `"x" * 1000000 / "" | length`, `"x" * 1000000 | explode | length`, `"x" * 400000 | explode | map(. + 1) | implode | explode`, `null | [def f: ., ([.] | f); f]`,
	`try ("x" * 1e9) catch "caught"`, `try ([range(1e9)]) catch "caught"`, `first(range(1e9) | select(false))`, `[range(1e9)] | halt_error`,
}

// failing contains programs that fail for another reason.
var failing = map[string]string{
	`1, 2`:                                   "the program has more than one result; use [...] to collect the results, or first(...)",
	`range(1e9)`:                             "the program has more than one result; use [...] to collect the results, or first(...)",
	`1, error("no")`:                         "error: no",
	`reduce range(2000) as $i (1; [.])`:      "a value is nested more than 1000 levels deep",
	`null | setpath([range(2000) | "a"]; 1)`: "a value is nested more than 1000 levels deep",
	`"[" * 20000 | fromjson`:                 `fromjson cannot be applied to "[[[[[[[[[[[[[[[[[[[[[[[[ ...": invalid character '[' exceeded max depth`,
	`9 | until(false; . * .)`:                "a number has more than 2000 digits",
	`reduce range(100) as $i (3; . *= .)`:    "a number has more than 2000 digits",
	`"9" * 100000 | tonumber`:                "a number has more than 2000 digits",
	`"9" * 100000 | fromjson`:                "a number has more than 2000 digits",
	`"x" * 262145`:                           "the result is too large: it has 262147 bytes; the limit is 262144",
	`error`:                                  `error: {"event":"Paid"}`,
	`.event.x`:                               `expected an object but got: string ("Paid")`,
	`1 / 0`:                                  "cannot divide number (1) by: number (0)",
	`halt`:                                   "halt error: null",
	`builtins`:                               "",
}

var paid = []byte(`{"event":"Paid"}`)

// newTestMachine returns a machine for a program, or nil if it does not compile.
func newTestMachine(t *testing.T, program string) *machine {
	query, err := gojq.Parse(program)
	require.NoError(t, err, program)
	if guardProgram(query) != nil {
		return nil
	}
	m, err := newMachine(query)
	require.NoError(t, err, program)
	return m
}

// Each program reaches the work limit when there is no time limit. On an idle machine, each takes less
// than 100 ms; see the log.
func TestExpensivePrograms(t *testing.T) {
	for _, program := range expensive {
		m := newTestMachine(t, program)
		m.maxTime = time.Hour
		took, allocated, _, err := measure(m, paid)
		t.Logf("%8v %3d MB %s", took.Round(10*time.Microsecond), allocated>>20, program)
		assert.Equal(t, errWork, err, program)
		assert.Less(t, allocated, uint64(100<<20), program)
	}
}

func TestFailingPrograms(t *testing.T) {
	for program, want := range failing {
		m := newTestMachine(t, program)
		if want == "" {
			assert.Nil(t, m, program)
			continue
		}
		m.maxTime = time.Hour
		_, allocated, _, err := measure(m, paid)
		assert.EqualError(t, err, want, program)
		assert.Less(t, allocated, uint64(100<<20), program)
	}
}

// measure runs a program, and returns the time and the allocated bytes.
func measure(m *machine, body []byte) (took time.Duration, allocated uint64, out []byte, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	out, err = m.run(body)
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc, out, err
}

func TestTimeLimit(t *testing.T) {
	m := newTestMachine(t, `[range(1000)] | length`)
	m.maxTime = -1
	_, err := m.run(paid)
	assert.EqualError(t, err, "the program did not end within 50ms; the call is retried")
	assert.ErrorIs(t, err, webhook.ErrRetryTransform)
	m.maxTime = time.Hour
	_, err = m.run(paid)
	assert.NoError(t, err, "a new run has its own time limit")
}

// The guards cover the functions of this version of the interpreter. If a new version adds a function,
// check how its time and the size of its result depend on its input, before you change the number.
func TestInterpreterFunctions(t *testing.T) {
	query, err := gojq.Parse("builtins")
	require.NoError(t, err)
	v, _ := query.Run(nil).Next()
	names := v.([]any)
	slices.SortFunc(names, gojq.Compare)
	assert.Len(t, names, 215)
}

func TestDecode(t *testing.T) {
	for _, text := range []string{
		`{"a":[1,-2.50e+3,12345678901234567890],"b":{"":null,"caf\u00e9":"\ud83d\ude00\n\""},"c":[true,false,{}],"a":[]}`, `"x"`, ` [ ] `, `{"a":1}x`, `{"a"`, `[1,]`, ``, `nul`, `"\ud800"`,
	} {
		var want any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		wantErr := decoder.Decode(&want)
		if _, err := decoder.Token(); err == nil || !errors.Is(err, io.EOF) {
			wantErr = errors.New("data after the value")
		}
		got, err := decode([]byte(text))
		if wantErr != nil {
			assert.Error(t, err, text)
			continue
		}
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}
