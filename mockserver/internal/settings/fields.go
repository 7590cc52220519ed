package settings

import (
	"cmp"
	"iter"
	"reflect"
	"strings"
)

// Fields returns the settings of a struct and of its embedded structs: the name and the value of each
// field, in order. The name is the yaml tag or, without one, the JSON name. Fields without a name,
// or with the name -, are not settings.
func Fields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			f, value := v.Type().Field(i), v.Field(i)
			if f.Anonymous {
				for name, inner := range Fields(value) {
					if !yield(name, inner) {
						return
					}
				}
				continue
			}
			json, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name := cmp.Or(f.Tag.Get("yaml"), json, "-"); name != "-" && !yield(name, value) {
				return
			}
		}
	}
}
