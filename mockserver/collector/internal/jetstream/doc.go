// Package jetstream keeps accepted calls on NATS JetStream: on a server within the
// process, or on a cluster that several collectors share.
package jetstream
