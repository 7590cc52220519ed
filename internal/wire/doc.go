// Package wire writes the bytes of a call: values as JSON, message ids and
// timestamps. It appends to buffers that its callers own and knows no client.
//
// The encoder writes JSON by a type switch. The types that properties, traits
// and contexts are made of need no allocation, and most of them no reflection;
// encoding/json writes the rest. The text is what encoding/json writes with HTML
// escaping off, so '<', '>' and '&' are as they are. It differs from encoding/json
// in what it refuses and repairs:
//
//   - More than 990 levels, or more than [MaxText] bytes, is an error: what is
//     nested deeper is a cycle, or a shared value that unfolds without end. In a
//     struct, encoding/json finds the cycles, and the limits apply to what it wrote.
//   - Invalid UTF-8 in a json.RawMessage, or in what a MarshalJSON returned,
//     becomes U+FFFD, as it does in any other string.
//
// The path of a map: [AppendMap] hashes where the map sits in a call (a
// [PathHash]) and looks there for key sets, the sorted and escaped keys of
// earlier maps. A map whose keys match one is written by looking its
// values up; any other is sorted, and its key set may be remembered.
//
// Nothing in the package blocks, but for a caller's own MarshalJSON. All of it is
// safe for concurrent use: key sets are read without a lock.
//
// # Files
//
//  1. attrs.go: attributes of log/slog
//  2. encode.go: maps and values, by a type switch
//  3. keyset.go: keys that are remembered
//  4. reflect.go: what encoding/json writes
//  5. id.go: message ids
//  6. timestamp.go: times
//  7. number.go: numbers
//  8. string.go: strings
//  9. errors.go: limits, and values that cannot be written
package wire
