// Package tracking holds what all parts of the collector speak of: a source, a
// destination, a call, an attempt at it, its outcome, and the account of a
// destination. Its types are values. They do nothing but read and write themselves, so
// no stage of the collector needs to know another to hand a call on.
//
// A [Source] sends a [Call]. The call is stored for each [Destination] that the source
// is connected to, or it is a [Rejection] with a [Code]. Each request to a webhook is
// an [Attempt]; when it is decided what becomes of the call there is an [Ended], with
// an [Outcome]. The [Ledger] of a destination counts the outcomes. A [Record] is a
// call with all that has become of it.
//
// Nothing here blocks or is guarded: values that are shared must not be changed.
//
// # Files
//
//  1. record.go: a call and what became of it
//  2. attempt.go: a request to a webhook, and what was decided after it
//  3. ledger.go: the account of a destination
//  4. outcome.go: the states of a call
//  5. codes.go: what is wrong with a call or a request
//  6. sender.go: who sent a request
//  7. destination.go: sources and destinations
//  8. order.go: in which order calls are delivered
//  9. call.go: a call
//  10. limits.go: how much a request may hold
package tracking
