package v2program

import (
	"encoding/json"
	"log"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/segmentio/backo-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// The following declarations use the exported API of version 2 with its types. Programs do this when
// they mock the client, store functions in variables, or embed types.
type tracker interface {
	Alias(*analytics.Alias) error
	Group(*analytics.Group) error
	Identify(*analytics.Identify) error
	Page(*analytics.Page) error
	Track(*analytics.Track) error
	Close() error
}

var (
	_ tracker = &analytics.Client{
		Endpoint: "", Interval: time.Second, Size: 1, Logger: (*log.Logger)(nil), Verbose: true, Client: http.Client{},
	}
	_ func(string) *analytics.Client = analytics.New
	_ **backo.Backo                  = &analytics.Backo
	_ *map[string]interface{}        = &analytics.DefaultContext
)

const _ string = analytics.Version + analytics.Endpoint

// Programs store messages in files and queues as JSON, and decode them later.
func TestMessagesAreTheSameJSON(t *testing.T) {
	type object = map[string]interface{}
	common := analytics.Message{Type: "t", MessageId: "m", Timestamp: "ts", SentAt: "s"}
	const end = `"type":"t","messageId":"m","timestamp":"ts","sentAt":"s"}`
	const head = `{"context":{"c":1},"integrations":{"i":1},`
	const ids = `"anonymousId":"a","userId":"u",`
	for _, tt := range []struct {
		message interface{}
		full    string
		empty   string
	}{
		{&analytics.Identify{Context: object{"c": 1}, Integrations: object{"i": 1}, Traits: object{"t": 1}, AnonymousId: "a", UserId: "u", Message: common},
			head + `"traits":{"t":1},` + ids + end, `{}`},
		{&analytics.Group{Context: object{"c": 1}, Integrations: object{"i": 1}, Traits: object{"t": 1}, AnonymousId: "a", UserId: "u", GroupId: "g", Message: common},
			head + `"traits":{"t":1},` + ids + `"groupId":"g",` + end, `{"groupId":""}`},
		{&analytics.Track{Context: object{"c": 1}, Integrations: object{"i": 1}, Properties: object{"p": 1}, AnonymousId: "a", UserId: "u", Event: "e", Message: common},
			head + `"properties":{"p":1},` + ids + `"event":"e",` + end, `{"event":""}`},
		{&analytics.Page{Context: object{"c": 1}, Integrations: object{"i": 1}, Traits: object{"t": 1}, AnonymousId: "a", UserId: "u", Category: "k", Name: "n", Message: common},
			head + `"properties":{"t":1},` + ids + `"category":"k","name":"n",` + end, `{}`},
		{&analytics.Alias{PreviousId: "p", UserId: "u", Message: common},
			`{"previousId":"p","userId":"u",` + end, `{"previousId":"","userId":""}`},
		{&analytics.Batch{Context: object{"c": 1}, Messages: []interface{}{1}, Message: common},
			`{"context":{"c":1},"batch":[1],` + end, `{"batch":null}`},
	} {
		full, err := json.Marshal(tt.message)
		require.NoError(t, err)
		require.Equal(t, tt.full, string(full))
		empty, err := json.Marshal(reflect.New(reflect.TypeOf(tt.message).Elem()).Interface())
		require.NoError(t, err)
		require.Equal(t, tt.empty, string(empty))
	}
}
