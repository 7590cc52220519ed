package mockserver

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// A field is a member of a call that the collector knows.
type field uint8

const (
	otherField field = iota
	fieldType
	fieldMessageID
	fieldUserID
	fieldAnonymousID
	fieldEvent
	fieldName
	fieldCategory
	fieldGroupID
	fieldPreviousID
	fieldProperties
	fieldTraits
	fieldContext
	fieldIntegrations
	fieldTimestamp
	fieldOriginalTimestamp
	fieldSentAt
	fieldReceivedAt
	fieldWriteKey
)

// fieldNames are the keys of the fields.
var fieldNames = [...]string{
	fieldType: "type", fieldMessageID: "messageId", fieldUserID: "userId", fieldAnonymousID: "anonymousId",
	fieldEvent: "event", fieldName: "name", fieldCategory: "category", fieldGroupID: "groupId", fieldPreviousID: "previousId",
	fieldProperties: "properties", fieldTraits: "traits", fieldContext: "context", fieldIntegrations: "integrations",
	fieldTimestamp: "timestamp", fieldOriginalTimestamp: "originalTimestamp", fieldSentAt: "sentAt",
	fieldReceivedAt: "receivedAt", fieldWriteKey: "writeKey",
}

// fieldsByName is the other way round.
var fieldsByName = func() map[string]field {
	fields := map[string]field{}
	for f, name := range fieldNames {
		if name != "" {
			fields[name] = field(f)
		}
	}
	return fields
}()

// fieldOf returns the field that a member's key, in its quotes, names.
func fieldOf(key []byte) field { return fieldsByName[string(jsonscan.Unquote(key))] }

// text returns what a string says, the digits of a number, and otherwise "".
func text(value []byte) string {
	switch c := value[0]; {
	case c == '"':
		return strings.ToValidUTF8(string(jsonscan.Unquote(value)), "\uFFFD")
	case c == '-' || (c >= '0' && c <= '9'):
		return string(value)
	}
	return ""
}

// textLike returns what text does. If that is like another string, it returns
// that one and saves a copy.
func textLike(value []byte, like string) string {
	if len(value) == len(like)+2 && value[0] == '"' && string(value[1:len(value)-1]) == like && strings.IndexByte(like, '\\') < 0 {
		return like
	}
	return text(value)
}

// timeText returns what a string says, and otherwise nil.
func timeText(value []byte) []byte {
	if value[0] != '"' || len(value) == len(`""`) {
		return nil
	}
	return jsonscan.Unquote(value)
}

// object returns the value if it is an object, and otherwise nil.
func object(value []byte) []byte {
	if value[0] == '{' {
		return value
	}
	return nil
}

// appendString writes s, which is valid UTF-8, as JSON.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
