package event

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	valid   = "00-" + traceID + "-" + spanID + "-01"
)

func TestParseTraceParent(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"sampled":                                         {valid, valid},
		"not sampled":                                     {"00-" + traceID + "-" + spanID + "-00", "00-" + traceID + "-" + spanID + "-00"},
		"with a random ID":                                {"00-" + traceID + "-" + spanID + "-03", "00-" + traceID + "-" + spanID + "-03"},
		"unknown flags are cleared":                       {"00-" + traceID + "-" + spanID + "-ff", "00-" + traceID + "-" + spanID + "-03"},
		"surrounding blanks":                              {" " + valid + "\t", valid},
		"a later version":                                 {"cc-" + traceID + "-" + spanID + "-01", valid},
		"a later version with more fields":                {"cc-" + traceID + "-" + spanID + "-01-what-the-future-has", valid},
		"a later version keeps only sampled":              {"01-" + traceID + "-" + spanID + "-03", valid},
		"a later version with more fields, not separated": {"cc-" + traceID + "-" + spanID + "-01.what", ""},
		"a later version, and a hyphen":                   {"cc-" + traceID + "-" + spanID + "-01-", valid},
		"version ff":                                      {"ff-" + traceID + "-" + spanID + "-01", ""},
		"version 00 with more":                            {valid + "-more", ""},
		"version 00 and a hyphen":                         {valid + "-", ""},
		"no trace":                                        {"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", ""},
		"no parent":                                       {"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", ""},
		"upper case":                                      {"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01", ""},
		"version in upper case":                           {"CC-" + traceID + "-" + spanID + "-01", ""},
		"not hexadecimal":                                 {"00-" + traceID[:31] + "g-" + spanID + "-01", ""},
		"flags not hexadecimal":                           {"00-" + traceID + "-" + spanID + "-0x", ""},
		"too short":                                       {valid[:54], ""},
		"other hyphens":                                   {"00_" + traceID + "-" + spanID + "-01", ""},
		"a line break":                                    {valid + "\n", ""},
		"empty":                                           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseTraceParent(c.text)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want != "", ok)
		})
	}
}

func TestTraceOf(t *testing.T) {
	assert.Nil(t, TraceOf(http.Header{}))
	assert.Nil(t, TraceOf(http.Header{TraceStateHeader: {"a=b"}}), "a state without a parent is ignored")
	assert.Nil(t, TraceOf(http.Header{TraceParentHeader: {valid, valid}}), "two parents are ambiguous")
	assert.Nil(t, TraceOf(http.Header{TraceParentHeader: {"nonsense"}}))
	c := TraceOf(http.Header{TraceParentHeader: {valid}, TraceStateHeader: {"a=b", "c=d"}})
	assert.Equal(t, &Trace{Parent: valid, State: "a=b,c=d"}, c)
	assert.Equal(t, traceID, c.TraceID())
	assert.Equal(t, spanID, c.SpanID())
	assert.True(t, c.Sampled())
	assert.False(t, (&Trace{Parent: valid[:54] + "2"}).Sampled())
}

func TestParseTraceState(t *testing.T) {
	long := func(key string, n int) string { return key + "=" + strings.Repeat("x", n-len(key)-1) }
	many := func(n int) string {
		var members []string
		for i := range n {
			members = append(members, "k"+string('a'+rune(i/26))+string('a'+rune(i%26))+"=1")
		}
		return strings.Join(members, ",")
	}
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"none":                                 {nil, ""},
		"one":                                  {[]string{"vendor=opaque value"}, "vendor=opaque value"},
		"a tenant":                             {[]string{"0tenant@vendor=1"}, "0tenant@vendor=1"},
		"blanks and empty entries are removed": {[]string{" a=1 ,, \tb=2,"}, "a=1,b=2"},
		"several headers":                      {[]string{"a=1", "b=2"}, "a=1,b=2"},
		"32 members":                           {[]string{many(32)}, many(32)},
		"33 members":                           {[]string{many(33)}, ""},
		"the same key twice":                   {[]string{"a=1,a=2"}, ""},
		"no value":                             {[]string{"a="}, ""},
		"no equals sign":                       {[]string{"a"}, ""},
		"two equals signs":                     {[]string{"a=b=c"}, ""},
		"a key in upper case":                  {[]string{"A=1"}, ""},
		"a key that begins with a star":        {[]string{"*a=1"}, ""},
		"a control character":                  {[]string{"a=\x01"}, ""},
		"a letter that is not ASCII":           {[]string{"a=é"}, ""},
		"a key of 257 characters":              {[]string{strings.Repeat("k", 257) + "=1"}, ""},
		"a value of 257 characters":            {[]string{"a=" + strings.Repeat("x", 257)}, ""},
		"512 characters":                       {[]string{long("a", 200) + "," + long("b", 200) + "," + long("c", 110)}, long("a", 200) + "," + long("b", 200) + "," + long("c", 110)},
		"long entries are dropped first":       {[]string{long("a", 200) + "," + long("b", 200) + "," + long("c", 128)}, long("a", 200) + "," + long("c", 128)},
		"then the last entries":                {[]string{strings.Join([]string{long("a", 120), long("b", 120), long("c", 120), long("d", 120), long("e", 120)}, ",")}, strings.Join([]string{long("a", 120), long("b", 120), long("c", 120), long("d", 120)}, ",")},
		"too long to read":                     {[]string{strings.Repeat(",", 9000)}, ""},
		"long entries that do not fit":         {[]string{strings.Join([]string{long("a", 250), long("b", 250), long("c", 250)}, ",")}, strings.Join([]string{long("a", 250), long("b", 250)}, ",")},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, parseState(c.values)) })
	}
}

func FuzzTraceOf(f *testing.F) {
	f.Add(valid, "a=1,b=2")
	f.Add("cc-"+traceID+"-"+spanID+"-09-x", "t@v=1, ,"+strings.Repeat("y", 300)+"=1")
	f.Fuzz(func(t *testing.T, parent, state string) {
		c := TraceOf(http.Header{TraceParentHeader: {parent}, TraceStateHeader: {state}})
		if c == nil {
			return
		}
		if len(c.Parent) != parentLength || len(c.State) > maxState {
			t.Fatalf("%q has %d and %d characters", c, len(c.Parent), len(c.State))
		}
		if again := TraceOf(http.Header{TraceParentHeader: {c.Parent}, TraceStateHeader: {c.State}}); *again != *c {
			t.Fatalf("%q is parsed as %q", *c, *again)
		}
		for _, b := range []byte(c.Parent + c.State) {
			if b < ' ' || b > '~' {
				t.Fatalf("%q contains the byte %x", *c, b)
			}
		}
	})
}
