package tracking

import "time"

// A Code names what is wrong with a call or a request, in the answer and in
// the inspector.
type Code string

// Codes of a call that was not taken, though its request was.
const (
	CodeNotObject        Code = "call_not_object"
	CodeUnknownType      Code = "unknown_type"
	CodeNoUser           Code = "no_user_anon_id"
	CodeNoEvent          Code = "event_not_defined"
	CodeNoGroup          Code = "group_id_missing"
	CodeNoPrevious       Code = "previous_id_missing"
	CodeBadProperties    Code = "properties_not_object"
	CodeBadTraits        Code = "traits_not_object"
	CodeBadContext       Code = "context_not_object"
	CodeBadIntegrations  Code = "integrations_not_object"
	CodeBadTimestamp     Code = "bad_timestamp"
	CodeBadField         Code = "field_not_string"
	CodeMessageIDTooLong Code = "message_id_too_long"
	CodeBadMessageID     Code = "bad_message_id"
	CodeCallTooLarge     Code = "call_too_large"
	CodeUnknownWriteKey  Code = "unknown_write_key"
	CodeNotAsPlanned     Code = "not_as_planned" // by the tracking plan of its source, which rejects such calls
)

// Codes of a request that was not taken.
const (
	CodeInvalidJSON  Code = "invalid_json"
	CodeInvalidBatch Code = "invalid_batch"
	CodeTooManyCalls Code = "too_many_calls"
	CodeBodyTooLarge Code = "body_too_large"
	CodeBadEncoding  Code = "bad_encoding"
	CodeInvalidCalls Code = "invalid_calls"
	CodeQueueFull    Code = "queue_full"
	CodeRateLimited  Code = "rate_limited"
	CodeUnavailable  Code = "unavailable"
	CodeNotFound     Code = "not_found"
	CodeWrongMethod  Code = "method_not_allowed"
	CodeTimeout      Code = "request_timeout"
)

// A Rejection is a call that was not taken.
type Rejection struct {
	Code       Code      `json:"code"`
	Field      string    `json:"field,omitempty"` // the member that is wrong, where one is
	Message    string    `json:"message"`         // what is wrong and what would be right
	Index      int       `json:"index"`           // the call's place in its request, from 0
	Source     string    `json:"source,omitempty"`
	Type       string    `json:"type,omitempty"` // of its endpoint, or its own, of which these are the first 40 characters
	ReceivedAt time.Time `json:"receivedAt"`
	Body       []byte    `json:"-"` // as received, but for a write key; at most the first 32 KiB

	Sender     Sender      `json:"sender,omitzero"`      // of its request
	Violations []Violation `json:"violations,omitempty"` // of a call that is not as planned, see Call.Violations
}
