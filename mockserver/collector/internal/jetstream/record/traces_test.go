package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

func traceOf(digit, state string) *event.Trace {
	return &event.Trace{Parent: "00-" + strings.Repeat(digit, 32) + "-" + strings.Repeat(digit, 16) + "-01", State: state}
}

func TestTracesAreEncodedAndDecoded(t *testing.T) {
	a, b := traceOf("a", ""), traceOf("b", "x=1 , 2%,y=a:b")
	for name, l := range map[string]event.Traces{
		"none":           nil,
		"one":            {a},
		"one of several": {a, nil, nil},
		"runs":           {nil, a, a, b, b, nil, a},
	} {
		t.Run(name, func(t *testing.T) {
			got := Traces(TracesOf(l), len(l))
			for i := range l {
				assert.Equal(t, l[i], got.At(i), "call %d", i)
			}
		})
	}
	assert.Equal(t, "2:"+a.Parent+",1,1:"+b.Parent+":x=1%20%2C%202%25%2Cy=a:b", TracesOf(event.Traces{a, a, nil, b}))
}

func TestTracesAreBoundedInTheHeader(t *testing.T) {
	var l event.Traces
	for i := range PartCalls {
		l = append(l, &event.Trace{Parent: traceOf("a", "").Parent, State: strings.Repeat("v", 500) + "=" + string(rune('a'+i%26)) + string(rune('a'+i/26))})
	}
	value := TracesOf(l)
	assert.LessOrEqual(t, len(value), roomForTraces)
	got := Traces(value, len(l))
	assert.Equal(t, traceOf("a", ""), got.At(PartCalls-1), "the trace is kept without its state")
}

func TestInvalidTracesAreIgnored(t *testing.T) {
	a := traceOf("a", "")
	for name, value := range map[string]string{
		"not a number":        "x:" + a.Parent,
		"a run of no calls":   "0:" + a.Parent,
		"too many calls":      "3:" + a.Parent,
		"a negative number":   "-1:" + a.Parent,
		"invalid traceparent": "2:00-zz",
		"too large number":    "99999999999999999999:" + a.Parent,
	} {
		t.Run(name, func(t *testing.T) {
			got := Traces(value, 2)
			assert.Nil(t, got.At(0))
			assert.Nil(t, got.At(1))
		})
	}
}

func FuzzTraces(f *testing.F) {
	f.Add("2:"+traceOf("a", "").Parent+":x=1,1", 3)
	f.Add("1,1:", 128)
	f.Fuzz(func(t *testing.T, value string, calls int) {
		calls = max(0, min(calls, PartCalls*MaxParts))
		l := Traces(value, calls)
		if len(l) > calls {
			t.Fatalf("%d traces of %d calls", len(l), calls)
		}
		again := Traces(TracesOf(l), len(l))
		for i, c := range l {
			if c != nil && again.At(i).Parent != c.Parent {
				t.Fatalf("call %d: %v is read as %v", i, c, again.At(i))
			}
		}
	})
}
