package generate

import (
	"fmt"
	"strings"
)

// writeMethod returns the code of the method that writes the fields of a type. An event has a value
// receiver. With a pointer receiver, the message's Write function would move the event to the
// heap.
func writeMethod(receiver string, fields []field) string {
	var b strings.Builder
	fmt.Fprintf(&b, "func (e %s) write(o *typed.Object) {\n", receiver)
	for _, f := range fields {
		writeField(&b, f)
	}
	b.WriteString("}\n\n")
	return b.String()
}

// writeField appends the code that writes a field.
func writeField(b *strings.Builder, f field) {
	value := "e." + f.name
	switch {
	case f.opt():
		fmt.Fprintf(b, "if v, ok := %s.Get(); ok {\n%s}", value, jsonOf("o", f.key+", ", f.typ, "v"))
	case f.pointer || f.typ.kind == kindList || f.typ.kind == kindMap || f.typ.kind == kindAny:
		if f.required && !f.typ.nullable && !f.pointer { // a nil list or map is written as an empty one
			b.WriteString(jsonOf("o", f.key+", ", f.typ, value))
			return
		}
		t := f.typ
		if t.kind == kindMap { // the code below already checks for nil
			t = &goType{kind: kindAny}
		}
		fmt.Fprintf(b, "if %s != nil {\n%s}", value, jsonOf("o", f.key+", ", t, value))
	default:
		if zero := map[kind]string{kindString: ` == ""`, kindTime: `.IsZero()`}[f.typ.kind]; zero != "" {
			fmt.Fprintf(b, "if %s%s {\no.Fail(%s, typed.ErrRequired)\n}\n", value, zero, f.key)
		}
		b.WriteString(jsonOf("o", f.key+", ", f.typ, value))
		return
	}
	switch {
	case f.required && f.typ.nullable:
		fmt.Fprintf(b, " else {\no.Null(%s)\n}", f.key)
	case f.required:
		fmt.Fprintf(b, " else {\no.Fail(%s, typed.ErrRequired)\n}", f.key)
	}
	b.WriteByte('\n')
}

// writers contains the methods of package typed that write a value without a conversion.
var writers = map[kind]string{kindString: "String", kindFloat: "Float", kindBool: "Bool", kindTime: "Time", kindAny: "Any"}

// jsonOf returns the code that writes a value to w. If key is empty, w is an array, and otherwise
// an object.
func jsonOf(w, key string, t *goType, value string) string {
	switch t.kind {
	case kindInt:
		return fmt.Sprintf("%s.Int(%sint64(%s))\n", w, key, value)
	case kindEnum:
		check := fmt.Sprintf("%s.Fail(%s%s.check())\n", w, key, value)
		if t.base == kindString {
			value = "string(" + value + ")"
		}
		return check + jsonOf(w, key, &goType{kind: t.base}, value)
	case kindStruct:
		return fmt.Sprintf("%s.Object(%s%s.write)\n", w, key, value)
	case kindList:
		each, elem := "_, v", "v"
		if t.elem.kind == kindStruct { // a pointer avoids a copy
			each, elem = "i", value+"[i]"
		}
		return fmt.Sprintf("%s.Array(%sfunc(a *typed.Array) {\nfor %s := range %s {\n%s}\n})\n", w, key, each, value, jsonOf("a", "", t.elem, elem))
	case kindMap:
		return fmt.Sprintf("if %s == nil {\n%s.Object(%sfunc(*typed.Object) {})\n} else {\n%s.Any(%s%s)\n}\n", value, w, key, w, key, value)
	}
	return fmt.Sprintf("%s.%s(%s%s)\n", w, writers[t.kind], key, value)
}
