// Package fields describes the fields of a call: their names, how their values are read and
// written, and the supported time formats.
//
// [CallTypes] describes the types of calls.
//
// The functions of the package are stateless. They read JSON in one pass without building values.
package fields
