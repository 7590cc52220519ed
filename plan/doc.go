// Package plan reads tracking plans and checks calls against them. A tracking plan lists
// the calls that a program makes, with the properties of each.
//
// # Plan files
//
// A plan is a YAML or JSON file, usually kept in the program's repository:
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
//	  "": {} # pages with any other name
//	$defs:
//	  item: {type: object, properties: {sku: {type: string}, quantity: {type: integer}}}
//
// The sections track, page and screen contain one entry per name. The sections identify
// and group are single entries with traits instead of properties. Calls of other types, such as
// alias, are not checked. If a section exists but has no entry for a call's name,
// the call is an [UnplannedEvent].
//
// Each entry is a JSON Schema (2020-12) of the call's properties or traits. Its default type
// is object. There are three short forms:
//
//   - required: true in a property adds its name to the required list of its object.
//   - The plan's $defs are available in every entry.
//   - The key schema: contains a complete schema instead. Its $schema can select draft-07.
//
// # Imported plans
//
// [Parse] also reads these files:
//
//   - Exports of the service's Protocols, in the current format (rules with key, type and
//     jsonSchema) and the previous one (rules.events[].rules). Their schemas are draft-07
//     and describe whole calls. The rule of type COMMON, or global, applies to every call
//     of a planned type. If an event has several versions, the newest is used.
//   - RudderStack tracking plans, which use the previous format with an eventType per
//     event. A track event needs a name. A page or screen without a name describes all
//     pages or screens.
//   - The plan.json of Typewriter 8 and later, which uses the current format; each
//     jsonSchema describes the event's properties.
//
// [Plan.Warnings] lists the rules that restrict no field of a call.
//
// # JSON Schema support
//
// The format keyword is always checked. Patterns use the RE2 syntax of package regexp. A
// $ref must point into the same file, because Parse does not use the network. Parse refuses
// unknown keywords, because a misspelled keyword would check nothing. It allows keywords that
// begin with x-. Below schema: and in imported plans, it allows all unknown keywords.
//
// Limits on size, nesting and the steps per call bound the time to read a plan and to
// check a call. A call that exceeds them has an [InvalidValue] violation. Numbers are
// exact to 1000 digits.
//
// # Use
//
// Tests call [Expect], and [Unused] at the end. [Plan.Judge] checks one call, and a
// [Report] summarizes many. [Diff] compares two plans. The collector's commands plan
// check, plan infer and plan diff do the same for programs in any language. A collector
// also checks calls on arrival: [Plan.Accepts] accepts most calls without decoding them,
// and Judge explains the others.
//
// plan.go and judge.go are good files to read first. native.go and protocols.go read files,
// compile.go compiles schemas, matcher.go is the fast path, and explain.go creates violations.
package plan
