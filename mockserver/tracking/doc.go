// Package tracking defines the values that all parts of the collector share.
//
// A [Source] sends a [Call]. The collector stores the call for each connected [Destination], or
// rejects it with a [Code] and records a [Rejection]. Each request to a webhook is an
// [Attempt]. The result of an attempt is an [Ended] with an [Outcome]. The [Ledger] of a
// destination counts outcomes. A [Record] is a call with its attempts and outcomes.
//
// The types are plain values without locks. Shared values must not be modified.
package tracking
