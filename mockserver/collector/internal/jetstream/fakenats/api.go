package fakenats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// An apiError is an error response of JetStream.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

var (
	errNoStream   = &apiError{404, 10059, "stream not found"}
	errNoConsumer = &apiError{404, 10014, "consumer not found"}
	errNoMessage  = &apiError{404, 10037, "no message found"}
)

// pubResponse is the body of the response to a published message.
type pubResponse struct {
	Error     *apiError `json:"error,omitempty"`
	Stream    string    `json:"stream"`
	Seq       uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate,omitempty"`
}

// response is the body of other responses. Unset fields are omitted.
type response struct {
	Error *apiError `json:"error,omitempty"`
	*jetstream.StreamInfo
	Total   int            `json:"total,omitempty"`
	Offset  int            `json:"offset,omitempty"`
	Success bool           `json:"success,omitempty"`
	Purged  uint64         `json:"purged,omitempty"`
	Message *storedMessage `json:"message,omitempty"`
}

type consumerResponse struct {
	Error *apiError `json:"error,omitempty"`
	*jetstream.ConsumerInfo
}

type storedMessage struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Head    []byte    `json:"hdrs,omitempty"`
	Data    []byte    `json:"data,omitempty"`
	Time    time.Time `json:"time"`
}

// Bodies of requests.
type (
	infoRequest struct {
		Deleted bool   `json:"deleted_details"`
		Filter  string `json:"subjects_filter"`
		Offset  int    `json:"offset"`
	}
	purgeRequest struct {
		Seq    uint64 `json:"seq"`
		Filter string `json:"filter"`
	}
	getRequest struct {
		Seq  uint64 `json:"seq"`
		Last string `json:"last_by_subj"`
		Next string `json:"next_by_subj"`
	}
	deleteRequest struct {
		Seq     uint64 `json:"seq"`
		NoErase bool   `json:"no_erase"`
	}
	consumerRequest struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action"`
	}
)

// decode decodes a request. It panics if the request has unknown fields.
func decode[T any](data []byte) (v T) {
	if len(data) == 0 {
		return v
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		panic(fmt.Sprintf("fakenats: %T: %v: %s", v, err, data))
	}
	return v
}

// do executes a request. The caller must hold the server's lock. This applies to all functions in
// this file.
func (s *Server) do(r *Request) {
	if st := s.streamOf(r.Subject); st != nil {
		s.respond(r, s.publish(st, r))
		return
	}
	if rest, ok := strings.CutPrefix(r.Subject, "$JS.ACK."); ok {
		s.acknowledge(r, strings.Split(rest, "."))
		return
	}
	rest, ok := strings.CutPrefix(r.Subject, "$JS.API.")
	if !ok {
		if !s.deliver(r.Subject, r.Subject, r.reply, r.head, r.data) && r.reply != "" {
			s.deliver(r.reply, r.reply, "", headers(" 503"), nil)
		}
		return
	}
	words := strings.Split(rest, ".")
	switch {
	case rest == "INFO":
		s.respond(r, struct{}{})
	case words[0] == "STREAM" && words[1] == "MSG":
		s.respond(r, s.handleMessage(words[2], s.streams[words[3]], r.data))
	case words[0] == "STREAM":
		s.respond(r, s.handleStream(words[1], words[2], r.data))
	case words[0] == "DIRECT":
		s.getDirect(r, words[2], strings.Join(words[3:], "."))
	case words[0] == "CONSUMER" && words[1] == "MSG":
		s.pull(r, words[3], words[4])
	case words[0] == "CONSUMER":
		s.respond(r, s.handleConsumer(words[1], words[2], words[3], r.data))
	default:
		panic("fakenats: " + r.Subject)
	}
}

func (s *Server) respond(r *Request, v any) {
	if r.reply == "" {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	s.deliver(r.reply, r.reply, "", nil, text)
}

// handleStream executes a request about a stream.
func (s *Server) handleStream(what, name string, data []byte) response {
	st := s.streams[name]
	switch what {
	case "CREATE":
		if st == nil {
			st = &stream{config: decode[jetstream.StreamConfig](data), created: time.Now(), ids: map[string]*message{}, consumers: map[string]*consumer{}}
			s.streams[name] = st
			st.setDefaults()
		}
		return response{StreamInfo: st.info()}
	case "UPDATE":
		if st == nil {
			return response{Error: errNoStream}
		}
		st.config = decode[jetstream.StreamConfig](data)
		st.setDefaults()
		return response{StreamInfo: st.info()}
	}
	if st == nil {
		return response{Error: errNoStream}
	}
	switch what {
	case "INFO":
		ask := decode[infoRequest](data)
		a := response{StreamInfo: st.info(), Offset: ask.Offset}
		if ask.Deleted {
			a.State.Deleted = st.deleted()
		}
		if ask.Filter != "" {
			subjects := st.subjects(ask.Filter)
			a.Total = len(subjects)
			a.State.Subjects = subjectsFrom(subjects, ask.Offset)
		}
		return a
	case "PURGE":
		ask := decode[purgeRequest](data)
		purged := st.remove(func(m *message) bool {
			return (ask.Seq == 0 || m.seq < ask.Seq) && (ask.Filter == "" || matchesAny([]string{ask.Filter}, m.subject))
		})
		for _, c := range st.consumers {
			c.skip(st.state().FirstSeq)
			c.postpone()
		}
		return response{Success: true, Purged: purged}
	}
	panic("fakenats: STREAM." + what)
}

// subjectsFrom returns the sorted subjects. It omits as many of the first subjects as offset
// specifies.
func subjectsFrom(all map[string]uint64, offset int) map[string]uint64 {
	names := slices.Sorted(maps.Keys(all))
	some := map[string]uint64{}
	for _, name := range names[min(offset, len(names)):] {
		some[name] = all[name]
	}
	return some
}

func (st *stream) setDefaults() {
	if st.config.MaxBytes == 0 {
		st.config.MaxBytes = -1
	}
	if st.config.Duplicates == 0 {
		st.config.Duplicates = 2 * time.Minute
	}
}

func (st *stream) info() *jetstream.StreamInfo {
	return &jetstream.StreamInfo{Config: st.config, Created: st.created, State: st.state(), TimeStamp: time.Now()}
}

// handleMessage executes a request about a message of a stream.
func (s *Server) handleMessage(what string, st *stream, data []byte) response {
	switch {
	case st == nil:
		return response{Error: errNoStream}
	case what == "DELETE":
		seq := decode[deleteRequest](data).Seq
		if st.remove(func(m *message) bool { return m.seq == seq }) == 0 {
			return response{Error: &apiError{500, 10057, "no message found"}}
		}
		return response{Success: true}
	}
	m := st.requested(decode[getRequest](data))
	if m == nil {
		return response{Error: errNoMessage}
	}
	return response{Message: &storedMessage{m.subject, m.seq, m.head, m.data, m.at}}
}

// requested returns the message that a request asks for, or nil.
func (st *stream) requested(ask getRequest) *message {
	switch {
	case ask.Last != "":
		return st.lastOf(ask.Last)
	case ask.Next == "":
		return st.get(ask.Seq)
	}
	for _, m := range st.messages[st.find(ask.Seq):] {
		if matchesAny([]string{ask.Next}, m.subject) {
			return m
		}
	}
	return nil
}

// getDirect responds with the message itself instead of a description of it.
func (s *Server) getDirect(r *Request, name, subject string) {
	st := s.streams[name]
	if st == nil {
		s.deliver(r.reply, r.reply, "", headers(" 503"), nil)
		return
	}
	ask := decode[getRequest](r.data)
	if subject != "" {
		ask.Last = subject
	}
	m := st.requested(ask)
	if m == nil {
		s.deliver(r.reply, r.reply, "", headers(" 404 Message Not Found"), nil)
		return
	}
	lines := []string{"", "Nats-Stream: " + name, "Nats-Subject: " + m.subject, fmt.Sprint("Nats-Sequence: ", m.seq), "Nats-Time-Stamp: " + m.at.UTC().Format(time.RFC3339Nano)}
	for key, values := range m.header {
		lines = append(lines, key+": "+values[0])
	}
	s.deliver(r.reply, r.reply, "", headers(lines...), m.data)
}
