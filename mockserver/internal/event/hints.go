package event

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// HintOf returns a hint how to fix the problem with a code, or "".
func HintOf(c tracking.Code) string { return hints[c] }

// Codes returns all codes, sorted.
func Codes() []string {
	var codes []string
	for code := range hints {
		codes = append(codes, string(code))
	}
	slices.Sort(codes)
	return codes
}

var hints = map[tracking.Code]string{
	tracking.CodeNotObject:        `Send each call as an object, such as {"type":"track","userId":"u1","event":"Signed Up"}.`,
	tracking.CodeUnknownType:      "Set type to " + text.Alternatives(fields.Types) + ". It is case-sensitive.",
	tracking.CodeNoUser:           "Set userId for a known user, or anonymousId for an unknown one.",
	tracking.CodeBadProperties:    "Make properties an object or omit it.",
	tracking.CodeBadTraits:        "Make traits an object or omit it.",
	tracking.CodeBadContext:       "Make context an object or omit it.",
	tracking.CodeBadIntegrations:  `Make integrations an object that maps names to true, false or an object, such as {"All":false,"Webhooks":true}.`,
	tracking.CodeBadTimestamp:     "Use ISO 8601 in UTC for timestamp, such as 2026-01-31T12:00:00.000Z, or omit it.",
	tracking.CodeBadField:         "Make it a string.",
	tracking.CodeMessageIDTooLong: "Use a UUID, or let the client library set messageId.",
	tracking.CodeBadMessageID:     "Use a UUID, or let the client library set messageId.",
	tracking.CodeCallTooLarge:     "Send less data per call: move long values out of properties, traits and context.",
	tracking.CodeNotAsPlanned:     "Follow the tracking plan of the source, or correct the plan. The collector reloads it when its file changes.",
	tracking.CodeUnknownWriteKey:  "Use the write key of a source as the Basic auth user, with an empty password.",
	tracking.CodeInvalidJSON:      "The body must be one JSON object in UTF-8.",
	tracking.CodeInvalidBatch:     `Send {"batch":[…]} to /v1/batch, or one call to its path, such as /v1/track.`,
	tracking.CodeTooManyCalls:     "Send smaller batches.",
	tracking.CodeBodyTooLarge:     "Send smaller batches.",
	tracking.CodeTimeout:          "Client libraries retry automatically. The network or a proxy is too slow for batches of this size.",
	tracking.CodeBadEncoding:      "Send the body uncompressed or with Content-Encoding: gzip.",
	tracking.CodeQueueFull:        "Client libraries retry automatically. Check which destination is blocking the queue.",
	tracking.CodeRateLimited:      "Client libraries retry automatically. Send fewer calls or raise the rate limit of the source.",
	tracking.CodeUnavailable:      "Client libraries retry automatically. See the collector's log for the cause.",
	tracking.CodeInvalidCalls:     "Correct the calls listed next to this one. In strict mode, one invalid call rejects the whole batch.",
	tracking.CodeNotFound:         "Send batches to /v1/batch and single calls to /v1/track, /v1/identify and so on.",
	tracking.CodeWrongMethod:      "Use POST for calls, and GET for pixels and settings.",
	tracking.CodeRelayLoop:        "Set the endpoint of the relay to another collector.",
}

func init() {
	for _, typ := range fields.CallTypes {
		if typ.Code != "" {
			hints[tracking.Code(typ.Code)] = typ.Hint
		}
	}
}
