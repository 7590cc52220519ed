// Package hints says what to do about a call or a request that was not taken, for pages,
// terminals and the admin API alike.
package hints

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Of returns what would be right where something was wrong; it is empty where there is
// nothing to say.
func Of(c tracking.Code) string { return byCode[c] }

// Codes returns all codes, in the order of the alphabet.
func Codes() []string {
	var codes []string
	for code := range byCode {
		codes = append(codes, string(code))
	}
	slices.Sort(codes)
	return codes
}

var byCode = map[tracking.Code]string{
	tracking.CodeNotObject:        `Send an object for each call, such as {"type":"track","userId":"u1","event":"Signed Up"}.`,
	tracking.CodeUnknownType:      "Set type to identify, track, page, screen, group or alias; it is case sensitive.",
	tracking.CodeNoUser:           "Give the userId of someone you know, or an anonymousId of your own making for someone you do not.",
	tracking.CodeNoEvent:          "Name what happened in event, such as Order Completed.",
	tracking.CodeNoGroup:          "Give the ID of the company, account or team in groupId.",
	tracking.CodeNoPrevious:       "Give the ID that the user had before in previousId, and the new one in userId.",
	tracking.CodeBadProperties:    "Make properties an object, or leave it out.",
	tracking.CodeBadTraits:        "Make traits an object, or leave it out.",
	tracking.CodeBadContext:       "Make context an object, or leave it out.",
	tracking.CodeBadIntegrations:  `Make integrations an object of names to true, false or an object, such as {"All":false,"Webhooks":true}.`,
	tracking.CodeBadTimestamp:     "Write timestamp as ISO 8601 in UTC, such as 2026-01-31T12:00:00.000Z, or leave it out.",
	tracking.CodeBadField:         "Make it a string.",
	tracking.CodeMessageIDTooLong: "Use a UUID, or leave messageId to the client library.",
	tracking.CodeBadMessageID:     "Use a UUID, or leave messageId to the client library.",
	tracking.CodeCallTooLarge:     "Send less with one call: move what is long out of properties, traits and context.",
	tracking.CodeNotAsPlanned:     "Send what the tracking plan of the source says, or mend the plan: it is read again when its file changes.",
	tracking.CodeUnknownWriteKey:  "Use the write key of one of the sources. It goes as the user of Basic auth, with an empty password.",
	tracking.CodeInvalidJSON:      "Check what the program sends: the body must be one JSON object, in UTF-8.",
	tracking.CodeInvalidBatch:     `Send {"batch":[…]} to /v1/batch, or one call to its own path, such as /v1/track.`,
	tracking.CodeTooManyCalls:     "Send smaller batches.",
	tracking.CodeBodyTooLarge:     "Send smaller batches.",
	tracking.CodeTimeout:          "Client libraries send again by themselves. The network, or a proxy on the way, is too slow for batches of this size.",
	tracking.CodeBadEncoding:      "Send the body as it is, or with Content-Encoding: gzip.",
	tracking.CodeQueueFull:        "Client libraries send again by themselves. See which destination holds the queue up.",
	tracking.CodeRateLimited:      "Client libraries send again by themselves, later. Send less, or raise the source's rate.",
	tracking.CodeUnavailable:      "Client libraries send again by themselves. The collector's log says why it cannot store.",
	tracking.CodeInvalidCalls:     "Mend the calls that are listed beside this one. In strict mode none of a batch is stored where one is wrong.",
	tracking.CodeNotFound:         "Batches go to /v1/batch, single calls to /v1/track and its siblings.",
	tracking.CodeWrongMethod:      "Send with POST.",
}
