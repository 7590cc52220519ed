// Package store gives the journal access to its streams. [Streams] is the interface to JetStream,
// and a [Store] adds operations on top of it. [Store.Publish] returns when a message is stored. A
// [Tail] reads a stream in order. Store.Status reports whether the store can be written to, and
// cancels requests when it cannot. Store.Work contains all goroutines of a journal. They return
// when Store.Ctx ends.
package store
