package analytics

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The following declarations also compile with version 3. They are typical uses of the API: mocks,
// functions in variables, and derived types.
var (
	_ func(string) Client                  = New
	_ func(string, Config) (Client, error) = NewWithConfig
	_ func(*log.Logger) Logger             = StdLogger
	_ func(FieldGetter) error              = ValidateFields

	_ interface {
		io.Closer
		Enqueue(Message) error
	} = Client(nil)

	_ error = ConfigError{"reason", "field", 1}
	_ error = FieldError{"type", "name", 1}

	_ map[string]interface{} = Properties{}
	_ map[string]interface{} = NewTraits()
	_ map[string]interface{} = Integrations{}

	_ = Config{
		Endpoint: "", Interval: time.Second, Transport: http.DefaultTransport, Logger: nil, Callback: nil, BatchSize: 1,
		Verbose: true, DefaultContext: &Context{}, RetryAfter: func(int) time.Duration { return 0 },
	}
)

const (
	_ string        = DefaultEndpoint + Version
	_ int           = DefaultBatchSize
	_ time.Duration = DefaultInterval
)

// All messages, and pointers to them, implement Message. The literals have no field names, so they
// fail to compile if the order of the fields changes.
var _ = []Message{
	Alias{"", "m", "p", "u", time.Time{}, nil, nil}, &Alias{},
	Group{"", "m", "a", "u", "g", time.Time{}, nil, Traits{}, nil}, &Group{},
	Identify{"", "m", "a", "u", time.Time{}, nil, Traits{}, nil}, &Identify{},
	Page{"", "m", "a", "u", "n", time.Time{}, nil, Properties{}, nil}, &Page{},
	Screen{"", "m", "a", "u", "n", time.Time{}, nil, Properties{}, nil}, &Screen{},
	Track{"", "m", "a", "u", "e", time.Time{}, nil, Properties{}, nil}, &Track{},
}

// testdata/version3.3.txt lists the exported API of version 3.3, and api.txt lists the API of
// this package. Version 3.4 added some fields.
func TestAPIMatchesVersion3(t *testing.T) {
	ours := surface(t, "api.txt")
	differs := map[string]bool{
		`const Version untyped string = "3.0.0"`:                                     true, // the value differs
		`func NewWithConfig(writeKey string, config Config) (cli Client, err error)`: true, // the names of results differ
	}
	theirs := surface(t, "testdata/version3.3.txt")
	require.Greater(t, len(theirs), 200)
	for line := range theirs {
		if !differs[line] {
			assert.True(t, ours[line], "%s is missing", line)
		}
	}
	added := map[string]bool{ // fields that version 3.4 added
		`const DefaultMaxRetries untyped int = 10`:                           true,
		`const DefaultShutdownTimeout time.Duration = 75000000000`:           true,
		`const Version untyped string = "` + Version + `"`:                   true,
		`field Config.MaxRateLimitDuration time.Duration`:                    true,
		`field Config.MaxRetries int`:                                        true,
		`field Config.MaxTotalBackoffDuration time.Duration`:                 true,
		`field Config.ShutdownTimeout time.Duration`:                         true,
		`func NewWithConfig(writeKey string, config Config) (Client, error)`: true,
	}
	for line := range ours {
		assert.True(t, theirs[line] || added[line], "%s is not in version 3", line)
	}
}

func surface(t *testing.T, file string) map[string]bool {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(line, ", ")
		lines[strings.TrimSpace(line)] = true
	}
	return lines
}

// A message that is encoded as JSON and decoded again does not change.
func TestMessagesRoundTripJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600))
	const head, end = `{"type":"t","messageId":"m",`, `"timestamp":"2026-01-02T03:04:05.0000006+01:00","context":{"locale":"l"},`
	const integrations, empty = `"integrations":{"i":1}}`, `"timestamp":"0001-01-01T00:00:00Z"}`
	context := &Context{Locale: "l"}
	properties, traits, choices := Properties{"p": 1}, Traits{"t": 1}, Integrations{"i": 1}
	for _, tt := range []struct {
		message, zero Message
		full, empty   string
	}{
		{Alias{"t", "m", "p", "u", at, context, choices}, Alias{},
			head + `"previousId":"p","userId":"u",` + end + integrations, `{"previousId":"","userId":"",` + empty},
		{Group{"t", "m", "a", "u", "g", at, context, traits, choices}, Group{},
			head + `"anonymousId":"a","userId":"u","groupId":"g",` + end + `"traits":{"t":1},` + integrations, `{"groupId":"",` + empty},
		{Identify{"t", "m", "a", "u", at, context, traits, choices}, Identify{},
			head + `"anonymousId":"a","userId":"u",` + end + `"traits":{"t":1},` + integrations, `{` + empty},
		{Page{"t", "m", "a", "u", "n", at, context, properties, choices}, Page{},
			head + `"anonymousId":"a","userId":"u","name":"n",` + end + `"properties":{"p":1},` + integrations, `{` + empty},
		{Screen{"t", "m", "a", "u", "n", at, context, properties, choices}, Screen{},
			head + `"anonymousId":"a","userId":"u","name":"n",` + end + `"properties":{"p":1},` + integrations, `{` + empty},
		{Track{"t", "m", "a", "u", "e", at, context, properties, choices}, Track{},
			head + `"anonymousId":"a","userId":"u","event":"e",` + end + `"properties":{"p":1},` + integrations, `{"event":"",` + empty},
	} {
		full, err := json.Marshal(tt.message)
		require.NoError(t, err)
		assert.Equal(t, tt.full, string(full))
		zero, err := json.Marshal(tt.zero)
		require.NoError(t, err)
		assert.Equal(t, tt.empty, string(zero))
	}
}
