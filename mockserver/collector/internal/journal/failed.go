package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A failedRef names a message of FAILED: the calls of one part of a message that
// were given up at one attempt.
type failedRef struct {
	Number  uint64 `json:"n"` // see callsRef
	Attempt int    `json:"a"`
	Places  []int  `json:"p,omitempty"` // which calls of the message of FAILED
}

func (r failedRef) token() string { return fmt.Sprintf("%d-%d", r.Number, r.Attempt) }

// reasons says why calls were given up. It is a header, so that it can be read
// without the calls.
type reasons struct {
	Source   string   `json:"source"`
	Attempts int      `json:"attempts"`
	Reasons  []string `json:"reasons"`
	Of       []int    `json:"of"` // which of them each call has
}

func (r reasons) of(place int) string {
	if place < len(r.Of) && r.Of[place] < len(r.Reasons) {
		return r.Reasons[r.Of[place]]
	}
	return ""
}

// otherHeaders is more than what a message of FAILED has of headers beside ids and
// reasons.
const otherHeaders = 1 << 10

// header writes it in so many bytes, for which reasons may have to be cut off.
func (r reasons) header(room int) string {
	for most := maxReason; ; most /= 2 {
		for i, reason := range r.Reasons {
			r.Reasons[i] = strings.ToValidUTF8(reason[:min(len(reason), most)], "")
		}
		text, _ := json.Marshal(r) // of strings and numbers: it cannot fail
		if len(text) <= room || most == 0 {
			return string(text)
		}
	}
}

// keepFailed stores the calls that an outcome gave up.
func (j *Journal) keepFailed(ctx context.Context, o *outcome, given []tracking.Call) error {
	bodies, ids := make([][]byte, len(given)), make([]string, len(given))
	for i := range given {
		bodies[i], ids[i] = given[i].Body, given[i].ID
	}
	why := reasons{Source: given[0].Source, Attempts: o.attempt}
	why.Reasons, why.Of = reasonsOf(o.failed)
	idList := appendIDs(nil, ids)
	m := nats.NewMsg(j.names.subject("f", token(o.destination), failedRef{Number: o.ref.number(), Attempt: o.attempt}.token()))
	m.Data = appendSegment([]byte{callsFormat}, bodies)
	m.Header.Set(headerCalls, strconv.Itoa(len(bodies)))
	m.Header.Set(headerIDs, string(idList))
	m.Header.Set(headerReasons, why.header(maxHeaders-otherHeaders-len(idList)))
	setTime(m.Header, time.Now())
	_, err := j.publish(ctx, j.nc, m)
	return err
}

// Failed yields the calls that a destination has given up, oldest first. They are
// kept for Options.KeepFailed, as many as Options.FailedBytes has room for.
func (j *Journal) Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error {
	if err := j.open(); err != nil {
		return err
	}
	if !j.account.with(destination, func(*book) {}) {
		return fmt.Errorf("%w: %q", journal.ErrNotAttached, destination)
	}
	if err := j.awaitSettled(ctx); err != nil {
		return err
	}
	marks, err := j.marks(ctx, destination)
	if err != nil {
		return err
	}
	return j.eachFailed(ctx, destination, false, func(m *failedMessage) error {
		bodies, err := decodeCalls(m.data)
		if err != nil {
			return fmt.Errorf("journal: message %d of FAILED: %w", m.seq, err)
		}
		for place, body := range bodies {
			if marks[m.ref.token()].has(place) {
				continue
			}
			call, err := fields.ReadCall(m.why.Source, body)
			if err != nil {
				return fmt.Errorf("journal: message %d of FAILED: %w", m.seq, err)
			}
			if !yield(journal.FailedCall{Call: call, Reason: m.why.of(place), FailedAt: m.at, Attempts: m.why.Attempts}) {
				return errEnough
			}
		}
		return nil
	})
}

// A failedMessage is a message of FAILED.
type failedMessage struct {
	seq  uint64
	ref  failedRef
	why  reasons
	at   time.Time
	ids  string
	data []byte
}

// eachFailed reads the messages of a destination, oldest first, until f returns
// an error; errEnough ends it without one.
func (j *Journal) eachFailed(ctx context.Context, destination string, headersOnly bool, f func(*failedMessage) error) error {
	t := j.tail(streamFailed, 1, func(m *nats.Msg, seq uint64) error {
		parsed, err := parseFailed(seq, m)
		if err != nil {
			return err
		}
		return f(parsed)
	})
	t.subjects, t.headersOnly, t.batch = []string{j.names.subject("f", token(destination), "*")}, headersOnly, 64
	return t.scan(ctx)
}

func parseFailed(seq uint64, m *nats.Msg) (*failedMessage, error) {
	f := &failedMessage{seq: seq, ids: m.Header.Get(headerIDs), data: m.Data}
	last := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	_, err := fmt.Sscanf(last, "%d-%d", &f.ref.Number, &f.ref.Attempt)
	if err == nil {
		err = json.Unmarshal([]byte(m.Header.Get(headerReasons)), &f.why)
	}
	if err == nil {
		f.at, err = headerTime(m.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: message %d of FAILED cannot be read: %w", seq, err)
	}
	return f, nil
}

// A mark is a set of bits: which calls of a message of FAILED were replayed.
type mark []byte

func (m mark) has(place int) bool { return place/8 < len(m) && m[place/8]&(1<<(place%8)) != 0 }

func (m mark) with(places []int) mark {
	n := len(m)
	for _, p := range places {
		n = max(n, p/8+1)
	}
	marked := make(mark, n)
	copy(marked, m)
	for _, p := range places {
		marked[p/8] |= 1 << (p % 8)
	}
	return marked
}

// marks returns those of a destination, by the token of the message, and those that
// are yet to be stored.
func (j *Journal) marks(ctx context.Context, destination string) (map[string]mark, error) {
	var unmarked []failedRef // read first: what is marked meanwhile is read too
	err := j.eachUnmarked(ctx, destination, func(m *callsMessage) error {
		unmarked = append(unmarked, m.failed...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	marks := map[string]mark{}
	t := j.tail(streamFailed, 1, func(m *nats.Msg, _ uint64) error {
		marks[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]] = m.Data
		return nil
	})
	t.subjects = []string{j.names.subject("m", token(destination), "*")}
	if err := t.scan(ctx); err != nil {
		return nil, err
	}
	for _, ref := range unmarked {
		marks[ref.token()] = marks[ref.token()].with(ref.Places)
	}
	return marks, nil
}

// markReplayed takes calls off the list of failed ones. To do it twice does no
// harm.
func (j *Journal) markReplayed(ctx context.Context, destination string, refs []failedRef) error {
	for _, ref := range refs {
		m := nats.NewMsg(j.names.subject("m", token(destination), ref.token()))
		var have mark
		switch old, err := j.failed.GetLastMsgForSubject(ctx, m.Subject); {
		case err == nil:
			have = old.Data
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return err
		}
		m.Data = have.with(ref.Places)
		if _, err := j.publish(ctx, j.nc, m); err != nil {
			return err
		}
	}
	return nil
}
