package tracking

import "time"

// A Code identifies the reason why a call or a request was rejected. Responses and the inspector
// contain it.
type Code string

// Codes of rejected calls. The other calls of the request are accepted.
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
	CodeNotAsPlanned     Code = "not_as_planned" // the call violates the tracking plan of its source
)

// Codes of rejected requests.
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
	CodeRelayLoop    Code = "relay_loop" // the collector's own relay sent the request
)

// A Rejection is a rejected call.
type Rejection struct {
	Code       Code      `json:"code"`
	Field      string    `json:"field,omitempty"` // the invalid field, if any
	Message    string    `json:"message"`         // the problem and how to fix it
	Index      int       `json:"index"`           // index of the call in its request, counted from 0
	Source     string    `json:"source,omitempty"`
	Type       string    `json:"type,omitempty"` // type set by the endpoint or by the call; at most 40 characters
	ReceivedAt time.Time `json:"receivedAt"`
	Body       []byte    `json:"-"` // received call, with its write key and the values of Source.Redact redacted, or a note that it is not shown; at most 32 KiB

	Sender     Sender      `json:"sender,omitzero"`      // sender of the request
	Violations []Violation `json:"violations,omitempty"` // violations, if the call violates the plan; see Call.Violations
}
