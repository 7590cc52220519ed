// Package engine puts the stages together to a [Collector]: ingest before the journal,
// a worker of delivery for each destination behind it, history and users beside them.
// It is the only package that knows more than one stage; the admin API, the inspector,
// the test double and the command are made on it.
//
// # How it begins and ends
//
// [New] opens what the [Config] names, reads the calls that must be recognised, applies
// the settings, and starts a worker for each destination. [Collector.Apply] and the
// methods that add, change and remove bring a running collector to other settings:
// those of the configuration, with those that were made since added to them. Drain,
// then [Collector.Shutdown], then Close: calls that are not done stay pending in the
// journal.
//
// # What may block
//
// A request waits for the journal alone, see package ingest. A change of the settings
// waits for the store, for the journal, and for changes before it; requests go on with
// the settings as they were.
//
// # What guards what
//
// appliedSettings.changing lets one change of settings run at a time, and is held while the
// journal and the store are asked. The settings as requests see them are one atomic
// pointer to a value that does not change. workers.mu guards the map of workers, for a few
// instructions. Collector.replaying lets one replay run at a time,
// and replayRuns.mu guards what is known of those that go on by themselves.
//
// # Files
//
//  1. access.go: what the admin API and the pages ask of a collector
//  2. open.go: a collector begins
//  3. health.go: whether it is ready, and how its destinations are doing
//  4. settings.go: settings change
//  5. replay.go: calls become due again
//  6. preview.go: what a destination would have got
//  7. testcall.go: a destination is tried
//  8. collector.go: what a collector consists of, and how it ends
//  9. joined.go: which ids alias calls have joined
//  10. holds.go: pauses that receivers requested by Retry-After
//  11. gone.go: destinations that are not to be sent to any more
//  12. replayrun.go: replays that go on by themselves, and what became of their calls
//  13. destinationedit.go: settings whose secrets are hidden
//  14. config.go: what can be configured
package engine
