// Package generate writes Go for a tracking plan: a type for each event, and for traits,
// with which a call that is not as planned does not compile.
//
//	client.Track(events.OrderCompleted{
//		OrderID:  id,
//		Total:    25.5,
//		Currency: events.OrderCompletedCurrencyEUR,
//		Coupon:   typed.Some("SPRING"),
//	}.By(userID))
//
// By, and ByAnonymous, return an ordinary message, to which a context or a time can be given.
// Traits have Of in its place. Generated types write their own JSON, by package typed of the
// client: without reflection, a map or an allocation.
//
// # Types
//
//   - A string is a string, a number a float64, an integer an int, a boolean a bool, and a
//     string in the format date-time a time.Time.
//   - An enum of strings or integers is a type of its own, with constants.
//   - An object with properties is a struct, one without them a map. A list is a slice.
//   - What may be of several types is of type any, as is what the plan says nothing of.
//
// A property that is not required is a typed.Opt, whose zero value leaves it out; if it is an
// object it is a pointer, and if it is a list or of type any then nil leaves it out. Pointers
// to strings and numbers, as others use them, need a variable or a function for each value
// and are allocated. A property that is required, but may be null, is null then.
//
// # What is checked
//
// A misspelled property, a missing enum constant and a value of the wrong type do not
// compile. Required texts and times that are empty, and values that are not in their enum,
// are an error of the call, an analytics.FieldError with the path of the property. A number or
// boolean that was forgotten cannot be told from 0 or false. Ranges, formats and patterns are
// left to tests with plan.Expect and to the collector.
//
// # Names
//
// A name is that of the plan in Go's spelling, with its initialisms: orderId and order_id are
// OrderID. Where a name would come twice, the later one in the file has a number: OrderID2.
// One that does not begin with a letter that has an upper case begins with X. The output
// depends on the plan alone.
//
// # Files
//
//  1. generate.go: the file, and its events
//  2. members.go: the methods that write
//  3. types.go: types of schemas
//  4. names.go: names in Go's spelling
package generate
