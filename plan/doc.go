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
// RudderStack's tracking plans have the second form, with an eventType for each event. A
// track event needs a name. A page or screen without a name describes every page or screen.
//
// The plan.json that Typewriter 8 and later save has the first form, and each jsonSchema
// describes the event's properties.
//
// [Plan.Warnings] lists the rules that constrain no field of a call.
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
//
// # Where it is used
//
// Tests call [Expect], and [Unused] when all are done. The command collector has
// plan check, for calls of programs in any language, plan infer, which is package infer, and
// plan diff, which is [Diff]. [Plan.Judge] holds one call against a plan, and a [Report]
// gathers what comes of many. A collector has plans at its sources: [Plan.Accepts] takes
// what surely is as planned without decoding it, and only the rest is judged.
//
// # Files
//
//  1. expect.go: a test expects what a plan says
//  2. report.go: what came of many calls
//  3. judge.go: one call is held against the plan
//  4. explain.go: what the library found becomes violations
//  5. diff.go: two plans are compared
//  6. plan.go: a file is read, and what a plan has
//  7. protocols.go, native.go: the two forms of a file
//  8. compile.go: schemas are checked, and compiled
//  9. matcher.go: a call is accepted by its bytes, where that is sure
//  10. schema.go: a schema as those see it who generate code
//  11. keywords.go: the short forms of a schema
//  12. violation.go, problem.go: what is wrong with a call, and with a file
//  13. yaml.go, json.go: a file becomes nodes
//  14. node.go: values with their lines
//  15. near.go: what was perhaps meant
package plan
