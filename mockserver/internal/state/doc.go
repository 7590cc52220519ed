// Package state defines the storage of the collector's persistent state, except calls: settings
// changed at run time, audiences, computed traits, deletion requests, statistics, and ended
// sessions.
//
// A [Store] maps keys to values with revisions. It is as durable as the collector's journal.
// [NewMemory] returns a store in memory; mockserver/collector implements a store on JetStream.
// [Update] changes a JSON value optimistically, so that several processes can share a store without
// locks. A store may block on a disk or a network.
//
// The package also defines the errors of requests for named objects, because both the admin API and
// the pages return them.
package state
