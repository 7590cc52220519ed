// Package shapes learns what the calls of each event look like: which properties they
// have, how often, of which types and with which values, and what of that is odd.
//
// # The path of a call
//
// [Shapes] is an [event.Observer]. It counts each call that was stored by its source, type
// and event, and looks into it as long as there are tokens: about 2,000 calls a second,
// and 4,000 more at once after a pause. Events with few calls come first, so that a flood of
// one hides no other. All shares are of the calls that were looked at, and what is shown
// says of how many. A look walks the properties (of identify and group the traits)
// once, without building values, and notes them in the sketch of the event.
//
// # What is bounded
//
// A sketch is a tree of properties. Events, properties, their depth, their different
// values, the bytes of each sketch and of all together have limits; what is beyond them
// is counted as others. An event that was not seen for a day makes room for a new one.
//
// # What is kept
//
// [Shapes.Start] reads what an earlier process wrote, in the background, adds it to what came
// meanwhile, and from then on writes what has changed, a few events to a record, see
// package persist. Values are written where they came
// again and again, as those of enumerations do; single ones, email addresses and what says
// how a value is not as planned are not, since they may tell of a person.
//
// # What may block, and what guards what
//
// Observe waits for nothing but Shapes.mu, which guards all sketches. It is held for a
// batch, of which tokens bound the work, or to copy one sketch; never during I/O.
//
// # Files
//
//  1. persist.go: sketches are read at the start, and written from time to time
//  2. observe.go: calls are counted, and looked at as there are tokens
//  3. list.go: what is known of events, for those who ask
//  4. shapes.go: the sketches of all events, and the room for them
//  5. tokens.go: how many calls are looked at
//  6. record.go: how a sketch is written, and added to another
//  7. look.go: a call is looked at
//  8. export.go: an event as a JSON Schema, and as a match for a test
//  9. find.go: what a call has at a property
//  10. odd.go: what is odd, in words
//  11. view.go: an event and its properties, as they are shown
//  12. sketch.go: what is known of an event and of a property, and its bounds
//  13. kind.go: what a value is
package shapes
