package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// batchRoom is the buffer size of the reference programs. It is enough for a large batch.
const batchRoom = 400 << 10

// newAppender returns a reference that appends each call as JSON to a batch. It does not
// validate or escape strings, sort keys, or generate IDs and times.
func newAppender(job) (*client, error) {
	return reference(func(large bool) func(int) error {
		var tracks [variety]*analytics.Track
		for i := range tracks {
			tracks[i] = ourTrack(large, i)
		}
		batch := make([]byte, 0, batchRoom)
		return func(i int) error {
			if cap(batch)-len(batch) < 2<<10 {
				batch = batch[:0]
			}
			batch = appendTrack(batch, tracks[i%variety])
			return nil
		}
	}), nil
}

// newCopier returns a reference that copies the bytes of each call to a batch.
func newCopier(job) (*client, error) {
	return reference(func(large bool) func(int) error {
		var calls [variety][]byte
		for i := range calls {
			calls[i] = appendTrack(nil, ourTrack(large, i))
		}
		batch := make([]byte, batchRoom)
		at := 0
		return func(i int) error {
			if len(batch)-at < 2<<10 {
				at = 0
			}
			at += copy(batch[at:], calls[i%variety])
			return nil
		}
	}), nil
}

func reference(producer func(large bool) func(int) error) *client {
	return &client{producer: producer, close: func() error { return nil }, lost: func() int64 { return 0 }}
}

// rest is the end of a call. Its ID and time have the same length as in the clients' calls.
const rest = `"messageId":"01990f0a-5c1e-7c11-b6b1-2c4e0f3d9a55","timestamp":"2026-11-22T18:00:00.000Z","type":"track"},`

func appendTrack(dst []byte, t *analytics.Track) []byte {
	dst = append(dst, '{')
	for _, object := range []struct {
		key    string
		values map[string]interface{}
	}{{"context", t.Context}, {"integrations", t.Integrations}, {"properties", t.Properties}} {
		if object.values != nil {
			dst = append(appendText(dst, object.key), ':')
			dst = append(appendAny(dst, object.values), ',')
		}
	}
	dst = append(dst, `"event":`...)
	dst = append(appendText(dst, t.Event), `,"userId":`...)
	dst = append(appendText(dst, t.UserId), ',')
	return append(dst, rest...)
}

func appendAny(dst []byte, v interface{}) []byte {
	switch v := v.(type) {
	case string:
		return appendText(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	case map[string]interface{}:
		dst = append(dst, '{')
		for key, value := range v {
			dst = append(appendText(dst, key), ':')
			dst = append(appendAny(dst, value), ',')
		}
		dst[len(dst)-1] = '}'
		return dst
	}
	panic("no workload has such a value")
}

func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	return append(append(dst, s...), '"')
}

// newPoster returns a reference client. Each call sends the same payload in a POST request and waits
// for the response. The payload is as large as a webhook delivery.
func newPoster(j job) (*client, error) {
	payload := `{"version":1,"type":"track","userId":"user-12345","event":"` + largeEvent + `","properties":{"revenue":129.9` +
		strings.Repeat(`,"property":"value 7919 of 12"`, 18) + `},"timestamp":"2026-01-02T03:04:05.678Z"}`
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: j.Producers}, Timeout: webhook.Timeout}
	return reference(func(bool) func(int) error {
		return func(int) error {
			res, err := c.Post(j.Endpoint, "application/json", strings.NewReader(payload))
			if err != nil {
				return err
			}
			_, _ = io.Copy(io.Discard, res.Body)
			return res.Body.Close()
		}
	}), nil
}
