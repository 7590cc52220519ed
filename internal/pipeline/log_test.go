package pipeline

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

func TestDebugMatching(t *testing.T) {
	for list, want := range map[string]bool{
		"": false, "analytics": true, "*": true, "foo,analytics": true, "foo, analytics": true, "foo": false,
		"analytics2": false, "my-analytics": false, "ana*": true, "*lytics": true, "a*y*s": true, "*x*": false, "analytics*": true,
		"foo*": false, "foo,*": true, "1": false, "true": false, "Analytics": false, ",,": false, "analytics,": true, "a*a": false,
		"*a*a*i*": true, "a*ana*": false, "*ics*s": false, "*y*t*": true, "*t*y*": false, "*i*t*": false, strings.Repeat("*a", 1000): false,
		strings.Repeat("*", 60) + "x": false, "a" + strings.Repeat("*", 60) + "s": true, // matching such patterns does not take exponential time
	} {
		require.Equal(t, want, debugEnabled(list), "DEBUG=%q", list)
		t.Setenv("DEBUG", list)
		require.Equal(t, want, newLogger(nil, nil, false, "k").verbose, "DEBUG=%q", list)
		require.True(t, newLogger(nil, nil, true, "k").verbose)
	}
}

func TestLogRedactsTheWriteKey(t *testing.T) {
	var out strings.Builder
	l := newLogger(log.New(&out, "", 0), nil, false, "wk_0123456789abcdef")
	l.log(t.Context(), entry{line: "key wk_0123456789abcdef, header Basic d2tfMDEyMzQ1Njc4OWFiY2RlZjo= and 100%s"})
	require.Equal(t, "key wk_***, header Basic wk_*** and 100%s\n", out.String())

	out.Reset()
	newLogger(log.New(&out, "", 0), nil, false, "short").log(t.Context(), entry{line: "a short key"})
	require.Equal(t, "a *** key\n", out.String())

	for text, want := range map[string]string{
		"http://service/v1/batch, ice":            "http://service/v1/batch, ice",
		"no vice, no vices, no serv1ce, servé":    "no vice, no vices, no serv1ce, servé",
		"https://serv.example.com/serv/batch":     "https://serv.example.com/serv/batch",
		"lost-serv serv-lost a/serv":              "lost-serv serv-lost a/serv",
		`{"writeKey":"serv"} writeKey=serv&a=b`:   `{"writeKey":"***"} writeKey=***&a=b`,
		"unknown write key serv.":                 "unknown write key ***.",
		"serv serv, (serv) 'serv'; services serv": "*** ***, (***) '***'; services ***",
		"https://serv@host/ https://serv:@host/":  "https://***@host/ https://***:@host/",
		"Basic c2Vydjo=":                          "Basic ***",
	} {
		require.Equal(t, want, newRedactor("serv").redact(text))
	}

	long := newRedactor("/source 1/é-0123456789")
	require.Equal(t, "key /so***, https://cdn/v1/projects//so***/settings", long.redact("key /source 1/é-0123456789, https://cdn/v1/projects/%2Fsource%201%2F%C3%A9-0123456789/settings"))
}

// An error that quotes a response does not contain any part of the key.
func TestAnswerErrorRedactsTheWriteKey(t *testing.T) {
	const key = "wk_0123456789abcdef"
	p := &Pipeline{settings: &settings{log: newLogger(nil, nil, false, key)}}
	for pad := range wire.MaxRepeated {
		err := p.responseError("the collector", "Endpoint", http.StatusForbidden, []byte(strings.Repeat("x", pad)+key+strings.Repeat("y", wire.MaxRepeated)))
		require.NotContains(t, err.Error(), "wk_0", pad)
	}
	require.EqualError(t, p.responseError("the collector", "Endpoint", 460, nil), "the collector responded with 460", "a status without a name")
}

func TestLogOutlivesAPanickingWriter(t *testing.T) {
	l := newLogger(log.New(panickingWriter{}, "", 0), nil, true, "k")
	l.log(t.Context(), entry{line: "one"})
	l = newLogger(nil, slog.New(panickingHandler{}), true, "k")
	l.log(t.Context(), entry{message: "two"})
}

type panickingWriter struct{}

func (panickingWriter) Write([]byte) (int, error) { panic("no disk") }

type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { panic("no handler") }

func TestRedactedKeyIsUTF8(t *testing.T) {
	require.Equal(t, "a *** b", newRedactor("😀😀😀😀").redact("a 😀😀😀😀 b"))
}
