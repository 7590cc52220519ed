// Package plan reads tracking plans, which say what calls a program makes and what each
// of them has, and holds calls against them.
//
// # The file
//
// A plan is a file, in YAML or JSON, that people read and review beside the code:
//
//	plan: shop
//	track:
//	  Order Completed:
//	    description: The customer paid
//	    properties:
//	      orderId:  {type: string, required: true}
//	      total:    {type: number, minimum: 0, required: true}
//	      currency: {type: string, enum: [EUR, USD], required: true}
//	      items:    {type: array, items: {$ref: '#/$defs/item'}}
//	    additionalProperties: false
//	identify:
//	  traits:
//	    email: {type: string, format: email}
//	page:
//	  Docs: {properties: {path: {type: string}}}
//	  "": {} # pages of any other name
//	$defs:
//	  item: {type: object, properties: {sku: {type: string}, quantity: {type: integer}}}
//
// There are track, page and screen, by name, and identify and group, which have traits
// in place of properties. A plan says nothing of calls of a type that it does not have,
// nor of alias calls: they pass. Where it has a type, a call of a name that it does not
// have is an [UnplannedEvent].
//
// Each entry is JSON Schema 2020-12 of the call's properties or traits: type object,
// unless it says otherwise. What is short for more:
//
//   - required: true beside a property puts its name into the list of its object.
//   - $defs of the plan are those of each entry.
//   - schema: in place of all else is a whole schema, of 2020-12, or of draft-07 if its
//     $schema says so.
//
// The service's Protocols exports plans in two forms, as the API of today has them
// (rules with key, type and jsonSchema) and as the one before (rules.events[].rules).
// Both are read as they are. Their schemas are draft-07, and describe whole calls; the one
// of type COMMON, or global, holds for every call of a planned type. Of several versions
// of an event the newest counts.
//
// # What JSON Schema is here
//
// format is always checked, also where JSON Schema 2020-12 leaves it a note. pattern
// is RE2, as package regexp has it. A plan is complete in its file: $ref to anything else
// is refused, and nothing is fetched. Keywords that do not exist are refused, since a
// misspelled one would check nothing, but for those that begin with x-, those below
// schema, and those of Protocols.
//
// Whatever a file or a call says ends soon: there are limits of size, depth and of the
// steps that one call may take to be judged. What takes more is an [InvalidValue] that
// says so. Numbers are exact to 1000 digits.
package plan
