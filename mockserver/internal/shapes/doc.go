// Package shapes learns the structure of each event: its properties, their frequency, types
// and values, and anomalies.
//
// # Sampling
//
// [Shapes] is an [event.Observer]. It counts every stored call by source, type and event. It
// samples the properties of about 2,000 calls per second, and of 4,000 more after a pause. For
// identify and group calls, the traits are the properties. Rare events have priority over frequent
// ones. All shares refer to sampled calls. A sample is read in one pass without building values, and
// counted in the event's sketch, a tree of properties.
//
// # Limits
//
// The number of events and properties, their depth, the number of values, and the size of
// each sketch and of all sketches are limited. Data beyond the limits is counted as others. If an
// event has had no calls for a day, a new event may replace it.
//
// # Storage
//
// [Shapes.Start] restores stored sketches in the background, and saves changed sketches every
// minute; see [state.Persister]. Only repeated values are stored. Single values, email
// addresses and messages of plan violations are not stored, because they may contain
// personal data.
//
// # Locking
//
// Shapes.mu guards all sketches. It is held while a batch is observed or a sketch is copied,
// and never during I/O.
package shapes
