// Package engine assembles the stages into a [Collector]: ingest, the journal, a delivery worker
// per destination, history and users. It is the only package that connects the stages. The admin
// API, the inspector, the test double and the command are built on it.
//
// # Life cycle
//
// [New] reads the stored calls for duplicate detection, applies the settings, and starts a worker
// for each destination. [Collector.Apply] replaces the settings of the configuration; other
// methods add, change and remove settings at run time, which are stored separately. To stop a
// collector, call Drain, then [Collector.Shutdown] or Close. Unfinished calls stay pending in the
// journal.
//
// # Blocking
//
// Requests wait only for the journal; see package ingest. Changes of settings wait for the store,
// the journal and earlier changes. In the meantime, requests use the old settings.
//
// # Locks
//
// appliedSettings.changing serializes changes of settings, including I/O. Requests read an atomic
// pointer to immutable settings. workers.mu guards the map of workers, Collector.replaying
// serializes replays, and replayRuns.mu guards the tracked replays.
package engine
