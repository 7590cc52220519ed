// Package generate writes Go code for a tracking plan: a type for each event and for
// traits. Calls that violate the plan often do not compile.
//
//	client.Track(events.OrderCompleted{
//		OrderID:  id,
//		Total:    25.5,
//		Currency: events.OrderCompletedCurrencyEUR,
//		Coupon:   typed.Some("SPRING"),
//	}.By(userID))
//
// By and ByAnonymous return an ordinary message; callers can set its context and time.
// Types of traits have Of and OfAnonymous instead. Generated types write their JSON with
// package typed, without reflection, maps or allocations.
//
// # Types
//
//   - A string is a string, a number a float64, an integer an int, a boolean a bool, and a
//     string with the format date-time a time.Time.
//   - An enum of strings or integers is a named type with constants.
//   - An object with properties is a struct; other objects are maps. A list is a slice.
//   - A value with several types or without a schema is an any.
//
// Optional properties are fields of type typed.Opt. If the field has the zero value, the
// property is omitted. Optional objects are pointers. A nil pointer omits the object. Nil also
// omits lists, maps and values of type any. Pointers to strings and numbers are not used, because
// each value would require a variable or a helper function, and an allocation. A required
// property that can be null is null if its field is empty.
//
// # Checks
//
// Misspelled properties, unknown enum constants and values of the wrong type do not
// compile. Required strings and times that are empty, and values outside their enum, make
// the call return an analytics.FieldError with the path of the property. A missing number
// or boolean is indistinguishable from 0 or false. plan.Expect in tests and the collector check
// ranges, formats and patterns.
//
// # Names
//
// Go names are the plan's names in camel case with Go's initialisms: orderId and order_id
// become OrderID. A number distinguishes equal names, in file order: OrderID2. X precedes
// names that do not begin with an upper-case letter. The output depends only on the plan.
package generate
