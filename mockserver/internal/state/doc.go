// Package state defines the storage of the collector's persistent state, except calls: settings
// changed at run time, audiences, computed traits, deletion requests, statistics, and ended
// sessions.
//
// A [Store] maps keys to values with revisions. It is as durable as the collector's journal.
// [NewMemory] returns a store in memory; mockserver/collector implements a store on JetStream.
// [Update] changes a JSON value optimistically, so that several processes can share a store without
// locks. A store may block on a disk or a network.
//
// A [Persister] saves statistics every minute and when it stops. After a crash, the last minute is
// missing. It restores the stored records in the background. Until then its owner counts from zero,
// and Restore adds the stored counts. An unreadable record, for example of another version, is
// logged, and some or all statistics of this kind start from zero.
//
// The package also defines the errors of requests for named objects, because both the admin API and
// the pages return them.
package state
