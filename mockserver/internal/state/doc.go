// Package state is the seam to what the collector must remember beside calls: settings
// made while it runs, audiences and computed traits, deletion requests, sessions that
// were ended.
//
// A [Store] maps keys to values with revisions, and has the durability of the journal
// beside it. [NewMemory] makes the one in process; the module mockserver/collector has
// one on JetStream. [Update] changes a JSON value by comparing revisions, again and
// again until nobody comes between: so several processes can share a store without
// locks. A store may block on a disk or a network, never on a webhook.
//
// The errors of what is asked for by name are here too, since the admin API and the
// pages answer with them.
//
// # Files
//
//  1. memory.go: the store in memory; one mutex guards it
//  2. state.go: what a store promises, and JSON values in it
//  3. errors.go: errors of what is asked for by its name
package state
