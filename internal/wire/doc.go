// Package wire encodes calls: values as JSON, message IDs and timestamps. It appends to buffers
// of its callers.
//
// The encoder uses a type switch. The usual types of properties, traits and contexts need no
// allocation and rarely reflection; encoding/json encodes all others. The result equals the
// output of encoding/json without HTML escaping, except for these cases:
//
//   - More than 990 levels, or more than [MaxText] bytes, is an error, because the value is a
//     cycle or practically infinite. In structs, encoding/json detects cycles, and the limits
//     apply to its output.
//   - Invalid UTF-8 in a json.RawMessage, or in the result of MarshalJSON, becomes U+FFFD, as
//     in other strings.
//
// [AppendMap] computes a [PathHash] from the position of the map in the call. The hash selects
// the cached key sets to try: the sorted and escaped keys of previous maps. If one matches, the
// values are looked up by its keys. Otherwise the keys are sorted, and may be added to the
// cache.
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
