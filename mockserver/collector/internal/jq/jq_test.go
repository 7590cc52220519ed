package jq_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const call = `{"version":1,"type":"track","userId":"u1","event":"Order Completed","properties":{"total":9.5,"id":12345678901234567,"items":[{"sku":"a"},{"sku":"b"}]},"timestamp":"2026-01-02T03:04:05.000Z"}`

func TestTransform(t *testing.T) {
	for program, want := range map[string]string{
		`.`:                                   `{"event":"Order Completed","properties":{"id":12345678901234568,"items":[{"sku":"a"},{"sku":"b"}],"total":9.5},"timestamp":"2026-01-02T03:04:05.000Z","type":"track","userId":"u1","version":1}`,
		`{text: "\(.userId) did \(.event)"}`:  `{"text":"u1 did Order Completed"}`,
		`select(.type == "page")`:             ``,
		`empty`:                               ``,
		`null`:                                `null`,
		`[.properties.items[].sku] | add`:     `"ab"`,
		`add(.properties.items[].sku)`:        `"ab"`,
		`.properties.total * 2`:               `19`,
		`.properties | .total *= 2 | .total`:  `19`,
		`"ab" * 3`:                            `"ababab"`,
		`[("a","b") * (1,2)]`:                 `["a","b","aa","bb"]`,
		`.properties | {a: 1} * {b: 2}`:       `{"a":1,"b":2}`,
		`del(.properties, .timestamp) | keys`: `["event","type","userId","version"]`,
		`[paths] | length`:                    `13`,
		`(.properties.items | first) = 1 | .properties.items`:    `[1,{"sku":"b"}]`,
		`getpath(["a","b"]) = 1 | .a`:                            `{"b":1}`,
		`(.. | strings) |= ascii_downcase | .event`:              `"order completed"`,
		`def f(g): g | g; f(.userId? // "x" | ascii_upcase)`:     `"X"`,
		`[.properties | to_entries[] | .key]`:                    `["id","items","total"]`,
		`.properties.items | map(.sku) | join(", ")`:             `"a, b"`,
		`.properties.items[1:] | length`:                         `1`,
		`.event | gsub("[aeiou]"; "_")`:                          `"Ord_r C_mpl_t_d"`,
		`@base64 "x\(.userId)"`:                                  `"xdTE="`,
		`.userId | @json`:                                        `"\"u1\""`,
		`.timestamp | .[0:19] + "Z" | fromdate | strftime("%Y")`: `"2026"`,
		`$ENV`:                              `{}`,
		`try error("x") catch .`:            `"x"`,
		`reduce range(5) as $i (0; . + $i)`: `10`,
		`[.[]?] | first(.[] | numbers)`:     `1`,
		`.properties.items |= map(.sku) | .properties.items`: `["a","b"]`,
	} {
		transform, err := jq.Compile(program)
		if !assert.NoError(t, err, program) {
			continue
		}
		body, err := transform([]byte(call))
		assert.NoError(t, err, program)
		assert.Equal(t, want, string(body), program)
	}
}

func TestInvalidPrograms(t *testing.T) {
	for program, want := range map[string]string{
		`{`:                               "unexpected EOF",
		`nosuch`:                          "function not defined: nosuch/0",
		`$x`:                              "variable not defined: $x",
		`input`:                           "the function input is not available",
		`[inputs]`:                        "the function inputs is not available",
		`env`:                             "the function env is not available",
		`input_filename`:                  "the function input_filename is not available",
		`debug`:                           "the function debug is not available",
		`halt`:                            "the function halt is not available",
		`"a" | _multiply(1e9; "x")`:       "the function _multiply is not available",
		`import "a" as a; 1`:              "modules are not available; remove import, include and module",
		`include "a"; 1`:                  "modules are not available; remove import, include and module",
		`fromstream([[[1e9],1]][])`:       "the function fromstream is not available",
		strings.Repeat(" ", 16<<10) + ".": "has 16385 bytes; the limit is 16384",
	} {
		_, err := jq.Compile(program)
		assert.EqualError(t, err, want, "%.50s", program)
	}
}

// unusual contains programs that have a result or take too long, depending on the machine.
var unusual = []string{
	`"a" * 300000 | [match("(a|aa)*"; "g")] | length`, `[range(20000)] as $a | $a | indices($a[0:10000])`, `[1e300] | implode`, `[-1] | implode`,
	`[range(20000)] - [range(20000; 40000)] | length`, `"x" * 100000 | [splits("")] | length`, `[range(20000)] | unique | length`,
}

// hostile contains programs that must fail.
var hostile = []string{
	`def f: f; f`, `def f: f, f; f`, `def f: 1 + f; f`, `def f: [f]; f`, `range(1e9)`, `[range(1e9)]`, `[range(1e9) | {a: .}]`, `"x" * 1e9`, `1e9 * "x"`,
	`"x" | . *= 1e9`, `"xxxx" * 1e5 | [., .]  | add | . * 2`, `reduce range(2000) as $i (1; [.])`, `reduce range(40) as $i ("x"; . + .)`,
	`reduce range(40) as $i ("x"; "\(.)\(.)")`, `reduce range(40) as $i ("x"; . += .)`, `reduce range(60) as $i (1; [., .])`,
	`reduce range(60) as $i (1; [., .]) | tojson`, `reduce range(60) as $i (1; [., .]) | . == .`, `reduce range(60) as $i (1; {a: ., b: .}) | @text`,
	`reduce range(60) as $i (1; [., .]) | flatten`, `reduce range(60) as $i (1; [., .]) | [[.], [.]] | sort`, `reduce range(60) as $i (1; [., .]) | error`,
	`repeat(.)`, `[repeat(1)]`, `until(false; .)`, `[limit(1e9; repeat(1))] | length`, `[while(true; .)]`, `[recurse(. + 1)]`, `0 | [recurse(. + 1)]`,
	`[range(100000)] | map("x" * 1000) | add`, `add("x" * 100000 | ., ., ., ., ., ., .)`, `[range(10000)] | map("") | join("x" * 100000)`,
	`"a" * 100000 | test("(a?){1000}(a*)*b" * 50)`, `"a" * 300000 | test("(((a{10}){10}){10})*b")`,
	`[range(30000)] - [range(30000; 60000)]`, `"x" * 100000 | [splits("")]`, `"x" * 400000 | gsub(""; "yy")`,
	`[range(1e6)] | implode`, `setpath([1e9]; 1)`, `null | setpath([1e9]; 1)`, `null | .[1e9] = 1`, `null | .[100000000] |= 1`,
	`null | getpath([1e8]) = 1`, `null | nth(1e8) = 1`, `null | [1e8] as [$a] | .[$a] = 1`, `getpath([range(100000) | "a"])`, `null | setpath([range(5000) | "a"]; 1)`,
	`null | pick(.[1e8])`, `9 | until(false; . * .)`, `reduce range(40) as $i (123456789; . * .) | tostring`, `reduce range(100) as $i (3; . *= .) | 1`,
	`now | strftime("%999999999d")`, `[range(60000)] | . as $x | def f: $x[] | f; f`, `[combinations(10)]`, `[range(100)] | [., ., ., ., ., .] | [combinations]`,
	`@sh "\([range(100000)])"`, `"x" * 300000 | [., .] | @csv`, `"\u0000" * 300000`, `[range(60000)] | tojson | fromjson | tojson`, `"[" * 100000 | fromjson`,
	`"9" * 100000 | tonumber | . + 1`, `1, 2`, `error`, `error("no")`, `error({a: 1})`, `.event.x`, `1 / 0`, `[.[] | .x]`, `nan | error`, `try error("\(1)") catch error`,
	`label $f | 1, break $f, 2, 3 | ., .`, `[range(65536)] | map({a: .}) | group_by(.a)`, `ltrimstr(1e999) | .x.y.z`, `"x" * 400000 | explode | map(. + 1) | implode | explode`,
}

func TestHostileProgramsEnd(t *testing.T) {
	for i, program := range slices.Concat(unusual, hostile) {
		t.Run(program, func(t *testing.T) {
			transform, err := jq.Compile(program)
			if err != nil {
				return // rejected
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			body, err := transform([]byte(call))
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if i >= len(unusual) {
				require.Error(t, err, "%.100s", body)
			}
			if err != nil {
				assert.Less(t, len(err.Error()), 300)
			}
			t.Logf("%v, %d MB allocated: %v", took, (after.TotalAlloc-before.TotalAlloc)>>20, err)
			assert.Less(t, took, 500*time.Millisecond, "100 ms without other load")
			assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(1000), "MB allocated")
		})
	}
}

// Programs from a small grammar end, and have a result in canonical form or an error.
func FuzzPrograms(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, []byte(call))
	}
	f.Fuzz(func(t *testing.T, seed uint64, body []byte) {
		g := grammar{rand.New(rand.NewPCG(seed, 1))}
		program := g.filter(5)
		transform, err := jq.Compile(program)
		require.NoError(t, err, program)
		start := time.Now()
		out, err := transform(body)
		require.Less(t, time.Since(start), 2*time.Second, program)
		if err != nil || out == nil {
			return
		}
		same, err := webhook.Canonical(nil, out)
		require.NoError(t, err, program)
		require.Equal(t, string(same), string(out), program)
	})
}

// A grammar creates random programs.
type grammar struct{ *rand.Rand }

func (g grammar) filter(depth int) string {
	leaves := []string{".", "..", ".event", ".properties", ".[]?", ".a", "1", "1e9", "-1", `"x"`, "null", "[]", "{}", "keys?", "length", "tojson", "paths", "add?", "empty", "now", "@base64", "reverse?", "explode?", "implode?"}
	if depth == 0 {
		return leaves[g.IntN(len(leaves))]
	}
	forms := []string{
		"(A | B)", "(A, B)", "(A + B)", "(A * B)", "(A - B)", "(A / B)", "(A == B)", "(A // B)", "[A]", "{a: A, b: B}", "(A as $v | B)", `"\(A) \(B)"`, "(A |= B)", "(A += B)", "(A *= B)", "(A = B)",
		"(try A catch B)", "(if A then B else A end)", "(reduce range(30) as $i (A; B))", "[limit(1000; repeat(A))]", "(def f: A, f; f)", "(A)[B]?", "setpath([A]; B)", "del(A)", "path(A)", "map(A)?", "test(A)?", "join(A)?",
		"first(A)", "[splits(A)?]", "(foreach A as $v (0; B))", "with_entries(A)?", "(label $l | A, break $l)", "walk(A)", "sort_by(A)?", "(A | getpath([B]))",
	}
	form := forms[g.IntN(len(forms))]
	return strings.NewReplacer("A", g.filter(depth-1), "B", g.filter(depth-1)).Replace(form)
}

func BenchmarkTransform(b *testing.B) {
	transform, err := jq.Compile(`{user: .userId, event, total: .properties.total}`)
	require.NoError(b, err)
	for b.Loop() {
		if _, err := transform([]byte(call)); err != nil {
			b.Fatal(err)
		}
	}
}
