// Package fakenats is an in-memory NATS server for simulations. It implements the part of
// JetStream that the journal uses, and panics on anything else. The NATS client connects to
// it through a pipe.
//
// A server created with New(false) executes requests immediately. A server created with New(true)
// executes them when the simulation decides: [Server.Waiting] lists the waiting requests in a
// reproducible order, and [Server.Complete] completes one of them with a [Fate]. [Server.Tick]
// advances timers, [Server.Refuse] makes the server reject messages, and [Server.Crash] discards
// unacknowledged messages.
//
// For a server created with New(false), [Server.SetDecider] sets a function that delays, loses and repeats
// requests. A [Link] is a client's path to the server, which can be interrupted.
package fakenats
