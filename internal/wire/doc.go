// Package wire encodes calls: values as JSON, message IDs and timestamps. It appends to buffers
// of its callers.
//
// The encoder uses a type switch. It encodes the usual types of properties, traits and contexts
// without allocations and rarely with reflection. For other types it uses encoding/json. The
// output equals the output of encoding/json without HTML escaping, except for these cases:
//
//   - A value with more than 990 levels, or more than [MaxText] bytes, is an error, because it
//     probably contains a cycle. In structs, encoding/json detects cycles, and the limits apply
//     to its output.
//   - Invalid UTF-8 in a json.RawMessage, or in the result of MarshalJSON, becomes U+FFFD, as
//     in other strings.
//
// [AppendMap] computes a [PathHash] from the position of the map in the call. The hash selects
// cached key sets, which contain the sorted and escaped keys of previous maps. If the map has the
// same keys as one of them, AppendMap uses the cached keys. Otherwise it sorts the keys, and may
// add them to the cache.
//
// The package is safe for concurrent use. It does not block, except in a caller's MarshalJSON.
// Reading the cache takes no lock.
//
// # Important files
//
//   - encode.go: maps and values
//   - attrs.go: attributes of log/slog
//   - keyset.go: the cache of key sets
//   - id.go, timestamp.go: message IDs and times
package wire
