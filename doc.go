// Package analytics records what users do and sends it, in batches and in the
// background, to a collector that speaks the tracking API.
package analytics
