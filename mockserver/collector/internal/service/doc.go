// Package service runs a collector as a process: it listens, opens the queue, reloads the
// configuration, exposes metrics and shuts down gracefully.
//
// [Start] listens before it opens the queue. Until the queue is open, requests wait, and probes
// report that the process is live but not ready. A failed reload changes nothing.
package service
