// Package alerts sends alerts to a webhook when a collector has a problem, and when the problem
// has been resolved.
//
// An [Alerter] checks the collector every two seconds, and observes failed calls. It passes its
// findings to a machine, which decides which alerts to send. The machine uses no clock and no
// network. It keeps one condition per kind and destination, and accumulates changes in the
// condition. At most one alert per condition is therefore pending, even if the webhook is down.
//
// One goroutine checks the collector and sends alerts. Deliveries wait at most for a mutex, which
// is not held during requests. No state survives a restart.
package alerts
