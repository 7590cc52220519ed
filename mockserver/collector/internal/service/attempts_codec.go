package service

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Kinds of records. A record starts with its kind, followed by its fields. Numbers are varints,
// and strings have a length prefix.
const (
	recordAttempt = 1
	recordEnded   = 2
)

var errRecord = errors.New("corrupted attempt record")

func appendAttempt(b []byte, writer string, a *tracking.Attempt) []byte {
	b = append(b, recordAttempt)
	for _, s := range []string{writer, a.Source, a.CallID, a.Destination, a.URL, string(a.Reason), a.Error} {
		b = record.AppendText(b, s)
	}
	for _, n := range []int64{a.Time.UnixNano(), int64(a.Duration), int64(a.Number), int64(a.Status), int64(a.Verdict), int64(a.RetryAfter)} {
		b = binary.AppendVarint(b, n)
	}
	for _, h := range []http.Header{a.RequestHeader, a.ResponseHeader} {
		b = appendHeader(b, h)
	}
	for _, body := range [][]byte{bodyOf(a.Call), a.RequestBody, a.ResponseBody} {
		b = record.AppendText(b, body)
	}
	return appendBool(appendBool(binary.AppendVarint(b, int64(a.Calls)), a.Shared), a.Late)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return binary.AppendVarint(b, 1)
	}
	return binary.AppendVarint(b, 0)
}

// appendEnded appends the record of an outcome. The record includes the body if the call may
// have no attempt.
func appendEnded(b []byte, writer string, e *tracking.Ended) []byte {
	b = append(b, recordEnded)
	for _, s := range []string{writer, e.Source, e.CallID, e.Destination, e.Reason} {
		b = record.AppendText(b, s)
	}
	for _, n := range []int64{e.At.UnixNano(), e.ReceivedAt.UnixNano(), int64(e.Attempt), int64(e.State), retryNano(e.RetryAt)} {
		b = binary.AppendVarint(b, n)
	}
	body := bodyOf(e.Call)
	if e.State != tracking.StateFiltered && e.State != tracking.StateFailed {
		body = nil
	}
	return appendBool(record.AppendText(b, body), e.Shared)
}

func bodyOf(c *tracking.Call) []byte {
	if c == nil {
		return nil
	}
	return c.Body
}

func retryNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func appendHeader(b []byte, h http.Header) []byte {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for name, values := range h {
		for _, v := range values {
			b = record.AppendText(record.AppendText(b, name), v)
		}
	}
	return b
}

// A logged is a decoded record, either of an attempt or of an outcome.
type logged struct {
	writer  string
	attempt *tracking.Attempt
	ended   *tracking.Ended
}

func readLogged(data []byte) (logged, error) {
	if len(data) == 0 {
		return logged{}, errRecord
	}
	d := recordReader{record.Decoder{Rest: data[1:]}}
	var r logged
	var body []byte
	var source *string
	var call **tracking.Call
	switch data[0] {
	case recordAttempt:
		r.attempt = &tracking.Attempt{}
		source, call = &r.attempt.Source, &r.attempt.Call
		r.writer, body = d.attempt(r.attempt)
	case recordEnded:
		r.ended = &tracking.Ended{}
		source, call = &r.ended.Source, &r.ended.Call
		r.writer, body = d.ended(r.ended)
	default:
		return r, errRecord
	}
	if d.Failed {
		return r, errRecord
	}
	if len(body) == 0 {
		return r, nil
	}
	c, err := event.ReadCall(*source, body)
	if err != nil {
		return r, fmt.Errorf("attempt record: %w", err)
	}
	*call = &c
	return r, nil
}

// A recordReader decodes the fields of records.
type recordReader struct{ record.Decoder }

func (d *recordReader) attempt(a *tracking.Attempt) (writer string, body []byte) {
	writer, a.Source, a.CallID, a.Destination, a.URL = d.Text(), d.Text(), d.Text(), d.Text(), d.Text()
	a.Reason, a.Error = webhook.Reason(d.Text()), d.Text()
	a.Time, a.Duration, a.Number = time.Unix(0, d.Signed()).UTC(), time.Duration(d.Signed()), int(d.Signed())
	a.Status, a.Verdict, a.RetryAfter = int(d.Signed()), webhook.Verdict(d.Signed()), time.Duration(d.Signed())
	a.RequestHeader, a.ResponseHeader = d.header(), d.header()
	body, a.RequestBody, a.ResponseBody = d.Bytes(), d.Bytes(), d.Bytes()
	if len(d.Rest) > 0 { // the oldest records end before Calls
		a.Calls, a.Shared = int(d.Signed()), d.Signed() != 0
	}
	a.Late = len(d.Rest) > 0 && d.Signed() != 0 // older records end before Late
	return writer, body
}

func (d *recordReader) ended(e *tracking.Ended) (writer string, body []byte) {
	writer, e.Source, e.CallID, e.Destination, e.Reason = d.Text(), d.Text(), d.Text(), d.Text(), d.Text()
	e.At, e.ReceivedAt = time.Unix(0, d.Signed()).UTC(), time.Unix(0, d.Signed()).UTC()
	e.Attempt, e.State = int(d.Signed()), tracking.State(d.Signed())
	if at := d.Signed(); at != 0 {
		e.RetryAt = time.Unix(0, at).UTC()
	}
	body = d.Bytes()
	e.Shared = len(d.Rest) > 0 && d.Signed() != 0 // records of older versions end before it
	return writer, body
}

func (d *recordReader) header() http.Header {
	n := d.Int(len(d.Rest))
	h := make(http.Header, n)
	for range n {
		name := d.Text()
		h[name] = append(h[name], d.Text())
	}
	return h
}
