// Package typed is what generated events are made of: an [Object] that values write their
// own JSON to, without reflection and without a map, and [Opt] for what may be left out.
//
// Events are generated from a tracking plan by the package plan/gen, or by the command
// "collector plan gen". A program that has such events writes
//
//	client.Track(events.OrderCompleted{OrderID: id, Total: 25.5, Coupon: typed.Some("SPRING")}.By(userID))
//
// and imports this package for [Some] alone. What writes an object by hand looks like what
// is generated:
//
//	var keyOrderID, keyTotal = typed.NewKey("orderId"), typed.NewKey("total")
//
//	func (e OrderCompleted) write(o *typed.Object) {
//		o.String(keyOrderID, e.OrderID)
//		o.Float(keyTotal, e.Total)
//	}
//
//	client.Track(&analytics.Track{UserId: userID, Event: "Order Completed", Write: e.write})
//
// What is written is always one JSON object, whatever the methods are given: a value that
// JSON does not have is an error with its path, and of the call alone.
//
// # Files
//
//  1. object.go: objects and arrays
//  2. key.go: names of members
//  3. opt.go: values that may be left out
package typed
