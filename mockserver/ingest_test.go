package mockserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// newCollector makes a collector for a test, with no network.
func newCollector(t *testing.T, config engine.Config) *engine.Collector {
	t.Helper()
	config.AnyWriteKey = true
	c, err := engine.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestWhatIsStored(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC)
	const received = `"receivedAt":"2026-01-31T12:00:00.123Z"`
	for name, test := range map[string]struct{ path, body, want string }{
		"as it came": {
			body: `{"batch":[ { "type" : "track", "userId":"u", "event":"E", "messageId":"m", "properties":{"b":1,"a": [ 2 ] }, "x":null } ]}`,
			want: `{"type" : "track", "userId":"u", "event":"E", "messageId":"m", "properties":{"b":1,"a": [ 2 ] }, "x":null,` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"numbers keep their digits": {
			body: `{"batch":[{"type":"identify","userId":12345678901234567890,"messageId":"m","traits":{"a":9007199254740993,"b":1.10,"c":1e400,"d":-0}}]}`,
			want: `{"type":"identify","userId":12345678901234567890,"messageId":"m","traits":{"a":9007199254740993,"b":1.10,"c":1e400,"d":-0},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"the times of the sender": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","timestamp":"2026-01-31T13:00:00+01:00"}],"sentAt":"2026-01-31T12:00:05Z"}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"sentAt":"2026-01-31T12:00:05.000Z","originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T11:59:55.123Z"}`,
		},
		"a sentAt of its own": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","timestamp":"2026-01-31T12:00:00Z","sentAt":"2026-01-31T12:00:01Z"}],"sentAt":"2026-01-31T12:00:05Z"}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"sentAt":"2026-01-31T12:00:01.000Z","originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T11:59:59.123Z"}`,
		},
		"a sentAt that is none": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","timestamp":"2026-01-31T12:00:00Z","sentAt":"soon"}],"sentAt":17}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T12:00:00.000Z"}`,
		},
		"originalTimestamp for timestamp": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","originalTimestamp":"2026-01-31T12:00:00Z","timestamp":null,"receivedAt":"2001-01-01T00:00:00Z"}]}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T12:00:00.000Z"}`,
		},
		"timestamp before originalTimestamp": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","originalTimestamp":"2020-01-01T00:00:00Z","timestamp":"2026-01-31T12:00:00Z"}]}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T12:00:00.000Z"}`,
		},
		"the type of the path": {
			path: "/v1/screen", body: `{"type":"page","userId":"u","messageId":"m","name":"Home","writeKey":"secret"}`,
			want: `{"userId":"u","messageId":"m","name":"Home","type":"screen",` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"the context and integrations of the batch": {
			body: `{"context":{"ip":"1.2.3.4","library":{"name":"l"}},"batch":[{"type":"page","userId":"u","messageId":"m"}],"integrations":{"All":false}}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"ip":"1.2.3.4","library":{"name":"l"}},"integrations":{"All":false},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"beneath the call's own": {
			body: `{"context":{"ip":"1.2.3.4","library":{"name":"l","version":"1"}},"integrations":{"All":true,"A":{}},"batch":[{"context":{"library":{"name":"own"},"locale":"de"},"integrations":{"All":false},"type":"page","userId":"u","messageId":"m"}]}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"library":{"name":"own"},"locale":"de","ip":"1.2.3.4"},"integrations":{"All":false,"A":{}},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"keys that differ only in their escapes": {
			body: `{"context":{"i\u0070":1,"a\"b":2},"batch":[{"\u0074ype":"page","userI\u0064":"u","messageId":"m","context":{"ip":3,"a\u0022b":4}}]}`,
			want: `{"\u0074ype":"page","userI\u0064":"u","messageId":"m","context":{"ip":3,"a\u0022b":4},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"nothing in common": {
			body: `{"context":{"a":1, "b":2 },"batch":[{"type":"page","userId":"u","messageId":"m","context":{ "c":3}}]}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"a":1, "b":2 , "c":3},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"empty and null ones": {
			body: `{"context":{"a":1},"integrations":{},"batch":[{"type":"page","userId":"u","messageId":"m","context":{ },"integrations":null}]}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"a":1},"integrations":{},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(now))
				c := newCollector(t, engine.Config{})
				if test.path == "" {
					test.path = "/v1/batch"
				}
				require.Equal(t, ok, serve(c, http.MethodPost, test.path, test.body).Body.String())
				records := c.History().Records(nil)
				require.Len(t, records, 1)
				assert.Equal(t, test.want, string(records[0].Call.Body))
				again, err := fields.ReadCall(records[0].Call.Source, records[0].Call.Body)
				require.NoError(t, err)
				assert.Equal(t, records[0].Call, again)
			})
		})
	}
}

func TestACallWithoutAnIDGetsOne(t *testing.T) {
	c := newCollector(t, engine.Config{})
	const call = `{"type":"page","userId":"u"}`
	serve(c, http.MethodPost, "/v1/batch", `{"batch":[`+call+`,`+call+`,{"type":"page","userId":"u","messageId":""},{"type":"page","userId":"u","messageId":null}]}`)
	ids := map[string]bool{}
	for _, r := range c.History().Records(nil) {
		var body struct{ MessageID string }
		require.NoError(t, json.Unmarshal(r.Call.Body, &body))
		assert.Equal(t, r.Call.ID, body.MessageID)
		assert.Equal(t, 1, strings.Count(string(r.Call.Body), "messageId"))
		ids[r.Call.ID] = true
	}
	assert.Len(t, ids, 4)
}

func TestLimits(t *testing.T) {
	call := func(size int) string { // a call of that many bytes
		const head, tail = `{"type":"page","userId":"u","properties":{"x":"`, `"}}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	batch := func(calls ...string) string { return `{"batch":[` + strings.Join(calls, ",") + `]}` }
	pad := func(body string, size int) string { return body + strings.Repeat(" ", size-len(body)) }
	small := call(60)
	for name, test := range map[string]struct {
		path, body string
		status     int
		code       tracking.Code // of the request
		stored     int
		rejected   []tracking.Code
	}{
		"a body of 500 KB":                    {body: pad(batch(small), 512_000), status: 200, stored: 1},
		"a body of one byte more":             {body: pad(batch(small), 512_001), status: 413, code: tracking.CodeBodyTooLarge},
		"a call of 32 KB":                     {body: batch(call(32_768)), status: 200, stored: 1},
		"a call of one byte more":             {body: batch(call(32_769), small), status: 200, stored: 1, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"a single call of 32 KB":              {path: "/v1/page", body: call(32_768), status: 200, stored: 1},
		"a single call of one byte more":      {path: "/v1/page", body: call(32_769), status: 200, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"2,500 calls":                         {body: batch(strings.Split(strings.Repeat(small+"\n", 2_500), "\n")[:2_500]...), status: 200, stored: 2_500},
		"2,501 calls":                         {body: batch(strings.Split(strings.Repeat(small+"\n", 2_501), "\n")[:2_501]...), status: 413, code: tracking.CodeTooManyCalls},
		"a messageId of 100 characters":       {body: batch(`{"type":"page","userId":"u","messageId":"` + strings.Repeat("é", 100) + `"}`), status: 200, stored: 1},
		"a messageId of 101":                  {body: batch(`{"type":"page","userId":"u","messageId":"` + strings.Repeat("é", 101) + `"}`), status: 200, rejected: []tracking.Code{tracking.CodeMessageIDTooLong}},
		"a messageId with a line feed":        {body: batch(`{"type":"page","userId":"u","messageId":"a\nb"}`, small), status: 200, stored: 1, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId with a tab":              {body: batch(`{"type":"page","userId":"u","messageId":"a\tb"}`), status: 200, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId with a zero byte":        {body: batch(`{"type":"page","userId":"u","messageId":"\u0000"}`), status: 200, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId with a DEL":              {body: batch(`{"type":"page","userId":"u","messageId":"a\u007f"}`), status: 200, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId that is not ASCII":       {body: batch(`{"type":"page","userId":"u","messageId":"é\u0085 %0a"}`), status: 200, stored: 1},
		"nesting of 1,000":                    {body: batch(`{"type":"page","userId":"u","properties":{"a":` + strings.Repeat("[", 996) + strings.Repeat("]", 996) + `}}`), status: 200, stored: 1},
		"nesting of 1,001":                    {body: batch(`{"type":"page","userId":"u","properties":{"a":` + strings.Repeat("[", 997) + strings.Repeat("]", 997) + `}}`), status: 400, code: tracking.CodeInvalidJSON},
		"a call that its batch makes large":   {body: `{"context":{"x":"` + strings.Repeat("x", 20_000) + `"},"batch":[` + call(13_000) + "," + small + `]}`, status: 200, stored: 1, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"a context that no call can hold":     {body: `{"context":{"x":"` + strings.Repeat("x", 40_000) + `"},"batch":[` + small + `]}`, status: 200, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"a batch that its context multiplies": {body: `{"context":{"x":"` + strings.Repeat("x", 30_000) + `"},"batch":[` + strings.Repeat(small+",", 300) + small + `]}`, status: 413, code: tracking.CodeBodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, engine.Config{})
			if test.path == "" {
				test.path = "/v1/batch"
			}
			res := serve(c, http.MethodPost, test.path, test.body)
			assert.Equal(t, test.status, res.Code, res.Body)
			if test.code != "" {
				assert.Equal(t, string(test.code), answer(t, res.Body.String())["code"])
				assert.Len(t, c.History().Refusals(), 1)
			}
			assert.Len(t, c.History().Records(nil), test.stored)
			var rejected []tracking.Code
			for _, r := range c.History().Rejections() {
				rejected = append(rejected, r.Code)
			}
			assert.Equal(t, test.rejected, rejected)
		})
	}
}

func TestEveryReasonCode(t *testing.T) {
	for _, test := range []struct {
		call  string
		code  tracking.Code
		field string
	}{
		{`{"type":"track","userId":"u"}`, tracking.CodeNoEvent, "event"},
		{`{"type":"track","userId":"u","event":""}`, tracking.CodeNoEvent, "event"},
		{`{"type":"track","userId":"u","event":null}`, tracking.CodeNoEvent, "event"},
		{`{"type":"track","event":"E"}`, tracking.CodeNoUser, "userId"},
		{`{"type":"page"}`, tracking.CodeNoUser, "userId"},
		{`{"type":"identify","userId":"","anonymousId":null}`, tracking.CodeNoUser, "userId"},
		{`{"type":"group","userId":"u"}`, tracking.CodeNoGroup, "groupId"},
		{`{"type":"alias","userId":"u"}`, tracking.CodeNoPrevious, "previousId"},
		{`{"type":"alias","previousId":"p"}`, tracking.CodeNoUser, "userId"},
		{`{"type":"alias","previousId":"p","anonymousId":"a"}`, tracking.CodeNoUser, "userId"}, // a webhook's body has no place for it
		{`{"userId":"u"}`, tracking.CodeUnknownType, "type"},
		{`{"type":"Track","userId":"u","event":"E"}`, tracking.CodeUnknownType, "type"},
		{`{"type":"delete","userId":"u"}`, tracking.CodeUnknownType, "type"},
		{`{"type":"page","userId":"u","properties":[]}`, tracking.CodeBadProperties, "properties"},
		{`{"type":"identify","userId":"u","traits":"x"}`, tracking.CodeBadTraits, "traits"},
		{`{"type":"page","userId":"u","context":1}`, tracking.CodeBadContext, "context"},
		{`{"type":"page","userId":"u","integrations":false}`, tracking.CodeBadIntegrations, "integrations"},
		{`{"type":"page","userId":"u","timestamp":"yesterday"}`, tracking.CodeBadTimestamp, "timestamp"},
		{`{"type":"page","userId":"u","timestamp":1769862896}`, tracking.CodeBadTimestamp, "timestamp"},
		{`{"type":"page","userId":"u","timestamp":""}`, tracking.CodeBadTimestamp, "timestamp"},
		{`{"type":"page","userId":{"id":"u"}}`, tracking.CodeBadField, "userId"},
		{`{"type":"page","userId":"u","name":true}`, tracking.CodeBadField, "name"},
		{`{"type":"page","userId":"u","messageId":[]}`, tracking.CodeBadField, "messageId"},
		{`"page"`, tracking.CodeNotObject, ""},
		{`null`, tracking.CodeNotObject, ""},
	} {
		c := newCollector(t, engine.Config{Strict: true})
		res := serve(c, http.MethodPost, "/v1/batch", `{"batch":[{"type":"page","userId":"good"},`+test.call+`]}`)
		require.Equal(t, http.StatusBadRequest, res.Code, test.call)
		var got struct {
			Code  tracking.Code
			Calls []tracking.Rejection
		}
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &got))
		assert.Equal(t, tracking.CodeInvalidCalls, got.Code)
		require.Len(t, got.Calls, 1)
		assert.Equal(t, []any{test.code, test.field, 1}, []any{got.Calls[0].Code, got.Calls[0].Field, got.Calls[0].Index}, test.call)
		assert.NotEmpty(t, got.Calls[0].Message)
		assert.Empty(t, c.History().Records(nil), "strict stores nothing of a request that holds a bad call")
		rejections := c.History().Rejections()
		require.Len(t, rejections, 1)
		assert.Equal(t, test.call, string(rejections[0].Body))
	}
}

func TestALibraryThatSendsNumbersAsIDs(t *testing.T) {
	c := newCollector(t, engine.Config{})
	serve(c, http.MethodPost, "/v1/batch", `{"batch":[{"type":"group","userId":42,"groupId":7.5,"messageId":123}]}`)
	call := c.History().Records(nil)[0].Call
	assert.Equal(t, []string{"42", "7.5", "123"}, []string{call.UserID, call.GroupID, call.ID})
}

func TestRequestsOfTheWrongShape(t *testing.T) {
	for body, code := range map[string]tracking.Code{
		``: tracking.CodeInvalidJSON, `{`: tracking.CodeInvalidJSON, `{"batch":[}`: tracking.CodeInvalidJSON, `{"batch":[]} x`: tracking.CodeInvalidJSON,
		`[]`: tracking.CodeInvalidBatch, `"x"`: tracking.CodeInvalidBatch, `{}`: tracking.CodeInvalidBatch, `{"batch":{}}`: tracking.CodeInvalidBatch, `{"batch":null}`: tracking.CodeInvalidBatch,
	} {
		c := newCollector(t, engine.Config{})
		res := serve(c, http.MethodPost, "/v1/batch", body)
		assert.Equal(t, http.StatusBadRequest, res.Code, body)
		assert.Equal(t, string(code), answer(t, res.Body.String())["code"], body)
	}
	c := newCollector(t, engine.Config{})
	assert.Equal(t, ok, serve(c, http.MethodPost, "/v1/batch", `{"batch":[]}`).Body.String(), "an empty batch is no error")
	assert.Equal(t, http.StatusBadRequest, serve(c, http.MethodPost, "/v1/track", `[]`).Code)
}

// failing is a journal whose Append fails as it is told.
type failing struct {
	journal.Journal
	err error
}

func (f failing) Append(context.Context, event.Batch) error { return f.err }

func TestAnswersWhereNothingCanBeStored(t *testing.T) {
	body := track("m", 3)
	c := newCollector(t, engine.Config{Journal: failing{journal.NewMemory(0), errors.New("the disk is on fire")}})
	for range 2 { // a call that could not be stored is not taken for one that was
		res := serve(c, http.MethodPost, "/v1/batch", body)
		assert.Equal(t, http.StatusServiceUnavailable, res.Code)
		assert.Equal(t, "5", res.Header().Get("Retry-After"))
		assert.Equal(t, "unavailable", answer(t, res.Body.String())["code"])
		assert.NotContains(t, res.Body.String(), "fire")
	}
	c = newCollector(t, engine.Config{Journal: journal.NewMemory(100), Destinations: []tracking.Destination{hook("d", "http://127.0.0.1:1/")}})
	res := serve(c, http.MethodPost, "/v1/batch", body)
	assert.Equal(t, http.StatusTooManyRequests, res.Code, "over a limit that was set")
	assert.Equal(t, "5", res.Header().Get("Retry-After"))
	assert.Equal(t, "queue_full", answer(t, res.Body.String())["code"])
	assert.Empty(t, c.History().Records(nil))
}

// TestRefusedRequestsCountNoRepeats: a call that comes twice in a request that
// cannot be stored was not sent again, and one that was stored before is counted when
// the request is taken.
func TestRefusedRequestsCountNoRepeats(t *testing.T) {
	history, j := history.New(0), &appending{Journal: journal.NewMemory(0)}
	c := newCollector(t, engine.Config{Journal: j, History: history})
	require.Equal(t, http.StatusOK, serve(c, http.MethodPost, "/v1/batch", track("m", 1)).Code)
	j.append = func(context.Context, event.Batch) error { return errors.New("not this time") }
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, serve(c, http.MethodPost, "/v1/batch", track("m", 2)).Code)
	}
	assert.Zero(t, history.Records(nil)[0].Repeats)
	j.append = nil
	require.Equal(t, http.StatusOK, serve(c, http.MethodPost, "/v1/batch", track("m", 2)).Code)
	assert.Equal(t, 1, history.Records(nil)[0].Repeats)
}

// appending is a journal whose Append is replaced where append is not nil.
type appending struct {
	journal.Journal
	append func(context.Context, event.Batch) error
}

func (j *appending) Append(ctx context.Context, b event.Batch) error {
	if j.append != nil {
		return j.append(ctx, b)
	}
	return j.Journal.Append(ctx, b)
}

// TestCallsAreTakenOnceWhenTheSenderGivesUp: the sender hangs up while its calls are
// being stored and sends them again, before and after they are stored.
func TestCallsAreTakenOnceWhenTheSenderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var appended atomic.Int64
		release, j := make(chan struct{}), &appending{Journal: journal.NewMemory(0)}
		j.append = func(ctx context.Context, b event.Batch) error {
			stored := make(chan struct{})
			go func() {
				<-release
				appended.Add(int64(len(b.Calls)))
				close(stored)
			}()
			select {
			case <-stored:
				return nil
			case <-ctx.Done(): // nobody waits, and the batch is stored all the same
				return ctx.Err()
			}
		}
		srv := mockserver.RunEngineInProcess(t, engine.Config{Journal: j})
		send := func(patience time.Duration) (int, error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/batch", strings.NewReader(track("m", 3)))
			require.NoError(t, err)
			req.SetBasicAuth("key", "")
			res, err := srv.Client().Do(req)
			if err != nil {
				return 0, err
			}
			return res.StatusCode, res.Body.Close()
		}
		for range 2 {
			_, err := send(time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.AfterFunc(time.Second, func() { close(release) })
		status, err := send(time.Minute)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, status, "a sender that waits learns that its calls are stored")
		synctest.Wait()
		assert.Equal(t, int64(3), appended.Load())
		assert.Len(t, srv.Engine().History().Records(nil), 3)
	})
}

// TestCallsAreTakenOnceWhenTheJournalDoesNotKnow: the journal gives up waiting for
// its disk or its servers, and learns later what is stored.
func TestCallsAreTakenOnceWhenTheJournalDoesNotKnow(t *testing.T) {
	for stored := range 4 {
		synctest.Test(t, func(t *testing.T) {
			known, j := make(chan struct{}), &appending{Journal: journal.NewMemory(0)}
			j.append = func(context.Context, event.Batch) error {
				return &journal.AppendError{Err: errors.New("no answer"), Stored: func() int { <-known; return stored }}
			}
			srv := mockserver.RunEngineInProcess(t, engine.Config{Journal: j})
			send := func() int { return serve(srv.Engine(), http.MethodPost, "/v1/batch", track("m", 3)).Code }
			assert.Equal(t, http.StatusServiceUnavailable, send())
			assert.Equal(t, http.StatusServiceUnavailable, send(), "nobody waits for what may take long")
			again := []string{}
			j.append = func(_ context.Context, b event.Batch) error {
				for _, call := range b.Calls {
					again = append(again, call.ID)
				}
				return nil
			}
			close(known)
			synctest.Wait()
			assert.Len(t, srv.Engine().History().Records(nil), stored)
			assert.Equal(t, http.StatusOK, send())
			assert.Equal(t, []string{"m-0", "m-1", "m-2"}[stored:], again)
			assert.Len(t, srv.Engine().History().Records(nil), 3)
		})
	}
}

// slow is a journal whose first Append waits until it is released, and fails.
type slow struct {
	journal.Journal
	once    sync.Once
	entered chan struct{} // closed when Append was called
	release chan struct{} // closed by the test
}

func (s *slow) Append(ctx context.Context, b event.Batch) error {
	err := error(nil)
	s.once.Do(func() {
		close(s.entered)
		<-s.release
		err = errors.New("not this time")
	})
	if err != nil {
		return err
	}
	return s.Journal.Append(ctx, b)
}

// TestNoAnswerBeforeTheOtherRequestHasStored: two requests bring the same call,
// and the one that is storing it fails. The other must not have answered 200.
func TestNoAnswerBeforeTheOtherRequestHasStored(t *testing.T) {
	j := &slow{Journal: journal.NewMemory(0), entered: make(chan struct{}), release: make(chan struct{})}
	c := newCollector(t, engine.Config{Journal: j})
	var wg sync.WaitGroup
	status := make([]int, 2)
	wg.Go(func() { status[0] = serve(c, http.MethodPost, "/v1/batch", track("m", 2)).Code })
	<-j.entered
	wg.Go(func() { status[1] = serve(c, http.MethodPost, "/v1/batch", track("m", 1)).Code })
	close(j.release)
	wg.Wait()
	assert.Equal(t, []int{http.StatusServiceUnavailable, http.StatusOK}, status)
	records := c.History().Records(nil)
	require.Len(t, records, 1)
	assert.Equal(t, "m-0", records[0].Call.ID)
	assert.Zero(t, records[0].Repeats)
}

func TestDeduplicationIsPerSourceAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{DedupWindow: time.Hour, DedupCalls: 100})
		send := func(prefix string, n int) int {
			before := len(c.History().Records(nil))
			require.Equal(t, http.StatusOK, serve(c, http.MethodPost, "/v1/batch", track(prefix, n)).Code)
			return len(c.History().Records(nil)) - before
		}
		assert.Equal(t, 10, send("a", 10))
		assert.Equal(t, 0, send("a", 10))
		assert.Equal(t, 5, send("a", 15))
		time.Sleep(59 * time.Minute)
		assert.Equal(t, 0, send("a", 15), "within the window")
		time.Sleep(time.Hour)
		send("b", 1)
		time.Sleep(time.Hour)
		send("b", 1)
		c.History().Clear()
		assert.Equal(t, 15, send("a", 15), "after two windows they are new")
		for i := range 10 {
			send(fmt.Sprint("c", i), 50)
		}
		c.History().Clear()
		assert.Equal(t, 50, send("c0", 50), "the oldest were forgotten for the newest")
		assert.Equal(t, 0, send("c0", 50), "but not these")
	})
}
