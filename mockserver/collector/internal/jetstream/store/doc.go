// Package store gives the journal access to its streams: the [Streams] of JetStream, and a
// [Store] on top of them. [Store.Publish] returns once a message is stored. A [Tail] reads a
// stream in order. A bucket stores settings or state, and an [AttemptLog] stores attempts.
// Store.Status reports whether the store can be written to, and cancels requests when it
// cannot. Store.Work contains all goroutines of a journal; they end with Store.Ctx.
package store
