package main

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// printAPI prints the public API of packages, one line for each exported name. The file api.txt
// contains its output; `make api` updates it.
func printAPI(patterns []string) error {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps}, patterns...)
	if err != nil {
		return err
	}
	if packages.PrintErrors(pkgs) > 0 {
		return errFailed
	}
	var lines []string
	for _, p := range pkgs {
		lines = append(lines, describe(p.Types)...)
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}

// describe returns the lines for a package.
func describe(p *types.Package) []string {
	qualify := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Name()
	}
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, "pkg "+p.Path()+", "+fmt.Sprintf(format, args...))
	}
	for _, name := range p.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := p.Scope().Lookup(name).(type) {
		case *types.TypeName:
			if o.IsAlias() { // the original type lists the fields and methods
				add("type %s = %s", o.Name(), types.TypeString(types.Unalias(o.Type()), qualify))
				continue
			}
			add("type %s %s", name, kind(o.Type().Underlying(), qualify))
			for _, member := range members(o.Type(), qualify) {
				add("%s", member)
			}
		case *types.Const:
			add("%s = %s", types.ObjectString(o, qualify), o.Val())
		default:
			add("%s", types.ObjectString(o, qualify))
		}
	}
	return lines
}

// kind returns a type without its fields and methods.
func kind(t types.Type, qualify types.Qualifier) string {
	switch t.(type) {
	case *types.Struct:
		return "struct"
	case *types.Interface:
		return "interface"
	}
	return types.TypeString(t, qualify)
}

// members returns the exported fields and methods of a type.
func members(t types.Type, qualify types.Qualifier) []string {
	var lines []string
	name := types.TypeString(t, qualify)
	if s, ok := t.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				lines = append(lines, fmt.Sprintf("field %s.%s %s", name, f.Name(), types.TypeString(f.Type(), qualify)))
			}
		}
	}
	receiver := t
	if !types.IsInterface(t) {
		receiver = types.NewPointer(t)
	}
	for m := range types.NewMethodSet(receiver).Methods() {
		if m.Obj().Exported() && len(m.Index()) == 1 {
			signature := strings.TrimPrefix(types.TypeString(m.Type(), qualify), "func")
			lines = append(lines, fmt.Sprintf("method %s.%s%s", name, m.Obj().Name(), signature))
		}
	}
	return lines
}
