package sender_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	event    = `{"type":"identify","userId":"u","messageId":"m","timestamp":"2026-01-01T00:00:00.000Z"}`
	deletion = `{"type":"delete","userId":"u","messageId":"m","timestamp":"2026-01-01T00:00:00.000Z"}`
	plain    = `{"version":1,"type":"identify","userId":"u","traits":{},"timestamp":"2026-01-01T00:00:00.000Z"`
)

func TestBodies(t *testing.T) {
	failure := errors.New("no")
	for name, test := range map[string]struct {
		call      string
		batch     int
		transform webhook.Transform
		want      string
		err       string
	}{
		"no transform":                         {event, 0, nil, plain + `}`, ""},
		"an element contains the messageId":    {event, 2, nil, plain + `,"messageId":"m"}`, ""},
		"the input contains the messageId":     {event, 0, func(body []byte) ([]byte, error) { return body, nil }, plain + `,"messageId":"m"}`, ""},
		"the result of an element is final":    {event, 2, func([]byte) ([]byte, error) { return []byte(`"text"`), nil }, `"text"`, ""},
		"deletion notifications are unchanged": {deletion, 0, func([]byte) ([]byte, error) { return nil, failure }, `{"type":"delete","userId":"u","timestamp":"2026-01-01T00:00:00.000Z"}`, ""},
		"a deletion notification in a batch":   {deletion, 2, func([]byte) ([]byte, error) { return nil, failure }, `{"type":"delete","userId":"u","timestamp":"2026-01-01T00:00:00.000Z","messageId":"m"}`, ""},
		"a call without a payload":             {`{"type":"track"}`, 0, func(body []byte) ([]byte, error) { return body, nil }, "", "webhook: a call of type track requires event"},
		"an error":                             {event, 0, func([]byte) ([]byte, error) { return nil, failure }, "", "transform: no"},
		"no result":                            {event, 2, func([]byte) ([]byte, error) { return nil, nil }, "", "transform: the program has no result for this call"},
	} {
		s := webhook.Settings{Batch: webhook.Batch{Calls: test.batch}}
		body, err := sender.Body(&s, sender.Content{ID: "m", Body: []byte(test.call), Transform: test.transform})
		if test.err != "" {
			assert.EqualError(t, err, test.err, name)
			assert.Nil(t, body, name)
			continue
		}
		assert.NoError(t, err, name)
		assert.Equal(t, test.want, string(body), name)
	}
}

func TestSignatureOfATransformedBatch(t *testing.T) {
	s := webhook.Settings{Batch: webhook.Batch{Calls: 2}, SharedSecret: "secret"}
	c := sender.Content{ID: "m", Body: []byte(event), At: time.Now(), Transform: func([]byte) ([]byte, error) { return []byte(`{"a":1}`), nil }}
	r, err := sender.NewCallRequest(&s, c)
	require.NoError(t, err)
	assert.Equal(t, `[{"a":1}]`, string(r.Body))
	assert.NoError(t, webhook.Verify("secret", r.Body, r.Signature))
}
