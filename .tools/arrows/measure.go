package main

import (
	"errors"
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
)

// A pkg is a package and where it stands.
type pkg struct {
	*packages.Package
	dir   string // relative to the working directory, with slashes
	layer int
	order map[string]int // files by name: 0 is the entry; nil if no order is given
}

// An arrow is a name that a file uses upwards.
type arrow struct {
	pkg, file  string // what uses it
	line       int    // the first use
	name       string // package-level name, or type and member
	from       string // where it is declared: a file of the package, or another package
	uses       int
	withinFile bool // the package is the same
}

// A report is what a measurement has found.
type report struct {
	pkgs   []*pkg
	arrows []*arrow
}

// load reads the packages of the modules in the directories.
func load(dirs []string) ([]*pkg, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	config := &packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile}
	var patterns []string
	for _, dir := range dirs {
		patterns = append(patterns, "./"+filepath.ToSlash(filepath.Join(dir, "...")))
	}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, err
	}
	if packages.PrintErrors(loaded) > 0 {
		return nil, errors.New("the packages do not compile")
	}
	var pkgs []*pkg
	for _, p := range loaded {
		if len(p.GoFiles) == 0 {
			continue // tests alone
		}
		dir, err := filepath.Rel(wd, filepath.Dir(p.GoFiles[0]))
		if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, &pkg{Package: p, dir: filepath.ToSlash(dir)})
	}
	return pkgs, nil
}

// measure finds all uses that run upwards.
func measure(pkgs []*pkg, rules rules) (*report, error) {
	r := &report{pkgs: pkgs}
	byPath := map[string]*pkg{}
	var problems []error
	for _, p := range pkgs {
		byPath[p.PkgPath] = p
		var found bool
		if p.layer, found = rules.layer(p.dir); !found {
			problems = append(problems, fmt.Errorf("%s stands in no layer", p.dir))
		}
		if err := p.readOrder(); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", p.dir, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	for _, p := range pkgs {
		r.arrows = append(r.arrows, p.upward(byPath)...)
	}
	return r, nil
}

// readOrder reads the list of files in the package comment, and holds it against
// the files that there are.
func (p *pkg) readOrder() error {
	var files []string
	for _, f := range p.Syntax {
		listed, err := fileOrder(f.Doc.Text())
		if err != nil {
			return err
		}
		if listed != nil && files != nil {
			return errors.New("two files list the files of the package")
		}
		files = append(files, listed...)
	}
	if files == nil {
		return nil
	}
	p.order = map[string]int{}
	for i, name := range files {
		p.order[name] = i
		if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil {
			return fmt.Errorf("%s is in the list of files, but not in the package", name)
		}
	}
	for _, f := range p.Syntax {
		name := filepath.Base(p.Fset.Position(f.Package).Filename)
		if _, found := p.order[name]; !found && len(f.Decls) > 0 {
			return fmt.Errorf("%s is not in the list of files", name)
		}
	}
	return nil
}

// upward returns the names that the files of a package use upwards.
func (p *pkg) upward(byPath map[string]*pkg) []*arrow {
	type use struct{ file, from, name string }
	found := map[use]*arrow{}
	owners := map[*types.Package]map[types.Object]string{}
	for ident, o := range p.TypesInfo.Uses {
		if o.Pkg() == nil || byPath[o.Pkg().Path()] == nil {
			continue
		}
		o = origin(o)
		if owners[o.Pkg()] == nil {
			owners[o.Pkg()] = members(o.Pkg())
		}
		name, counts := owners[o.Pkg()][o]
		if !counts {
			continue
		}
		at := p.Fset.Position(ident.Pos())
		file := filepath.Base(at.Filename)
		from, up := p.above(file, o, byPath[o.Pkg().Path()])
		if !up {
			continue
		}
		key := use{file, from, name}
		if found[key] == nil {
			found[key] = &arrow{pkg: p.dir, file: file, line: at.Line, name: name, from: from, withinFile: o.Pkg() == p.Types}
		}
		found[key].uses++
		found[key].line = min(found[key].line, at.Line)
	}
	return slices.Collect(maps.Values(found))
}

// above returns where an object is declared, and reports whether that is above the
// file that uses it.
func (p *pkg) above(file string, o types.Object, declares *pkg) (from string, up bool) {
	if declares != p {
		return declares.dir, declares.layer >= p.layer
	}
	from = filepath.Base(p.Fset.Position(o.Pos()).Filename)
	return from, p.order != nil && p.order[from] < p.order[file]
}

// origin returns the declared object of an instance of a generic one.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Var:
		return o.Origin()
	case *types.Func:
		return o.Origin()
	}
	return o
}

// members returns the objects of a package that can be used from elsewhere in it,
// and what to call them: package-level names, methods and fields.
func members(p *types.Package) map[types.Object]string {
	names := map[types.Object]string{}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		names[o] = name
		addFields(names, name, o.Type())
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType || named.Obj() != o {
			continue
		}
		for m := range named.Methods() {
			names[m] = name + "." + m.Name()
		}
		addFields(names, name, named.Underlying())
	}
	return names
}

// addFields adds the fields and methods of a type that is written out where owner
// is declared, and those of the types written out in it.
func addFields(names map[types.Object]string, owner string, t types.Type) {
	switch t := t.(type) {
	case *types.Struct:
		for f := range t.Fields() {
			if names[f] == "" && f.Pkg() != nil {
				names[f] = owner + "." + f.Name()
				addFields(names, names[f], f.Type())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			names[m] = owner + "." + m.Name()
		}
	case *types.Pointer:
		addFields(names, owner, t.Elem())
	case *types.Slice:
		addFields(names, owner, t.Elem())
	case *types.Array:
		addFields(names, owner, t.Elem())
	case *types.Map:
		addFields(names, owner, t.Elem())
	case *types.Chan:
		addFields(names, owner, t.Elem())
	}
}
