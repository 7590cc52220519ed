// Package alerts sends alerts to a webhook when a collector has a problem, and when the
// problem ends.
//
// An [Alerter] checks the collector every two seconds, and observes failed calls. It passes
// the findings to a machine, which decides what to send and has no clock and no network of
// its own. The machine keeps one condition per kind and destination and accumulates
// changes in it, so at most one alert per condition is pending even if the webhook is down.
//
// One goroutine checks and sends. Deliveries wait at most for a mutex, which is never held
// during a request. No state survives a restart.
package alerts
