// Package typed supports generated events: an [Object] writes JSON without reflection or
// maps, and an [Opt] is an optional value.
//
// The command plan/gen and the collector's command plan gen generate events from a
// tracking plan. A program sends them like this, and needs this package only for [Some]:
//
//	client.Track(events.OrderCompleted{OrderID: id, Total: 25.5, Coupon: typed.Some("SPRING")}.By(userID))
//
// Handwritten code can use an Object as generated code does:
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
// The output is always one valid JSON object. A value without a JSON representation makes
// the call return an error that names the value's path.
package typed
