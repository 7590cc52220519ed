// Package alerts tells a webhook when something is wrong with a collector, and when that
// is over.
//
// An [Alerter] looks at the collector every two seconds, and is an event.Observer that
// hears of calls that were given up. What it learns goes to a machine, which has one
// condition for each kind and destination and knows no clock and no network. A condition
// holds what its receiver does not yet know, in sums: so however long the webhook fails,
// there is at most one alert to be sent for each condition.
//
// One goroutine looks and sends. Deliveries wait for a mutex at most, which is never held
// while something is sent or asked. Nothing is kept across a restart.
//
// # Files
//
//  1. alerts.go: the collector is looked at, and alerts are sent
//  2. machine.go: what is wrong, since when, and which alerts are due
//  3. alert.go: what an alert says, as JSON and for Slack
package alerts
