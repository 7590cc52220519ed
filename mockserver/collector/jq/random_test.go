package jq

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Random programs have a result in canonical form, no result, or an error. The number of programs is SEEDS
// (default 1000).
func TestRandomPrograms(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 300
	}
	if seeds, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		n = seeds
	}
	longest, largest, failed, filtered := time.Duration(0), uint64(0), 0, 0
	for seed := range n {
		g := grammar{rand.New(rand.NewPCG(uint64(seed), 1))}
		program := g.filter(5)
		m := newTestMachine(t, program)
		took, allocated, out, err := measure(m, fmt.Appendf(nil, `{"event":%q,"properties":%s}`, g.leaf(), g.value(4)))
		longest, largest = max(longest, took), max(largest, allocated)
		require.Less(t, allocated, uint64(100<<20), program)
		switch {
		case err != nil:
			assert.NotContains(t, err.Error(), "the interpreter failed", program)
			failed++
		case out == nil:
			filtered++
		default:
			again, err := webhook.Canonical(nil, out)
			require.NoError(t, err, program)
			assert.Equal(t, string(again), string(out), program)
		}
	}
	t.Logf("%d programs: %d failed, %d without a result; at most %v and %d MB", n, failed, filtered, longest, largest>>20)
}

// A grammar creates random programs.
type grammar struct{ *rand.Rand }

func (g grammar) filter(depth int) string {
	if depth == 0 {
		return g.leaf()
	}
	forms := []string{
		"(A | B)", "(A, B)", "(A + B)", "(A * B)", "(A - B)", "(A / B)", "(A == B)", "(A // B)", "[A]", "{a: A, b: B}", "(A as $v | B)", `"\(A) \(B)"`, "(A |= B)", "(A += B)", "(A *= B)", "(A = B)",
		"(try A catch B)", "(if A then B else A end)", "(reduce range(30) as $i (A; B))", "[limit(1000; repeat(A))]", "(def f: A, f; f)", "(A)[B]?", "setpath([A]; B)", "del(A)", "path(A)", "map(A)?", `test("(x|y)+$"; "i")?`, "join(A)?", `gsub("e*"; A)?`,
		"first(A)", `[splits("")?]`, "(foreach A as $v (0; B))", "with_entries(A)?", "(label $l | A, break $l)", "walk(A)", "sort_by(A)?", "(A | getpath([B]))",
	}
	form := forms[g.IntN(len(forms))]
	return strings.NewReplacer("A", g.filter(depth-1), "B", g.filter(depth-1)).Replace(form)
}

func (g grammar) leaf() string { return leaves[g.IntN(len(leaves))] }

// value returns a random JSON value.
func (g grammar) value(depth int) string {
	switch n := g.IntN(8); {
	case n < 3 && depth > 0:
		return "[" + g.value(depth-1) + "," + g.value(depth-1) + "]"
	case n < 6 && depth > 0:
		return `{"a":` + g.value(depth-1) + `,"key":` + g.value(depth-1) + "}"
	case n == 6:
		return "-12345678901234567890.5e3"
	}
	return `"caf\u00e9 \ud83d\ude00"`
}

var leaves = []string{".", "..", ".event", ".properties", ".[]?", ".a", "1", "1e9", "-1", `"x"`, "null", "[]", "{}", "keys?", "length", "tojson", "paths", "add?", "empty", "now", "@base64", "reverse?", "explode?", "implode?"}
