// Package service runs a collector as a process: it listens, opens the queue, reloads the
// configuration, exposes metrics and shuts down gracefully.
//
// [Start] listens before it opens the queue. Until the queue is open, requests wait, and probes
// report that the process is live but not ready. A reload with an invalid configuration changes
// nothing. If the store fails during a reload, some destinations may already have their new settings.
package service
