// Package eventpage serves the pages about events: the list of events, and the properties,
// types, values, anomalies and matching calls of one event.
package eventpage
