// Package fakenats is an in-memory NATS server for simulations. It implements the part of
// JetStream that the journal uses, and panics on anything else. The NATS client connects to
// it through a pipe.
//
// A server executes requests immediately, or, if it was created with New(true), when the
// simulation decides: [Server.Waiting] lists the waiting requests in a reproducible order, and
// [Server.Complete] completes one with a [Fate]. [Server.Tick] advances timers, [Server.Refuse]
// makes the server refuse messages, and [Server.Crash] discards unacknowledged ones.
package fakenats
