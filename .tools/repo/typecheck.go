package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// typecheck checks the types of packages and their tests for several platforms, separated by
// commas. It loads all dependencies from source and generates no code, which takes a tenth of
// the time of go build. It skips the functions of the standard library and of other modules.
func typecheck(list string, patterns []string) error {
	debug.SetGCPercent(200) // the process is short-lived
	platforms := strings.Split(list, ",")
	on := map[string][]string{} // the platforms of each package
	failed := 0
	for _, platform := range platforms {
		pkgs, err := load(platform, patterns)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		failed += printErrors(pkgs)
		for _, p := range pkgs {
			if p.ID == p.PkgPath {
				on[p.ID] = append(on[p.ID], platform)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(on)) {
		if len(on[id]) < len(platforms) && !strings.HasSuffix(id, ".test") {
			log.Printf("%s has files only for %v: build constraints exclude all files on other platforms", id, on[id])
			failed++
		}
	}
	if failed > 0 {
		return errFailed
	}
	fmt.Printf("%d packages on %s\n", len(on), list)
	return nil
}

// printErrors prints the errors in packages outside of the standard library. It returns their
// number. It ignores type errors in dependencies: without their functions, imports are unused.
func printErrors(pkgs []*packages.Package) (n int) {
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		if p.Module == nil {
			return
		}
		for _, err := range p.Errors {
			if p.Module.Main || err.Kind != packages.TypeError {
				log.Print(err)
				n++
			}
		}
	})
	return n
}

func load(platform string, patterns []string) ([]*packages.Package, error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("invalid platform: use GOOS/GOARCH")
	}
	standard := filepath.Join(build.Default.GOROOT, "src") + string(filepath.Separator)
	return packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax | packages.NeedModule,
		Tests: true,
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution) // parse without comments
			// The paths of downloaded modules contain their versions.
			if f != nil && (strings.HasPrefix(name, standard) || strings.Contains(name, "@v")) {
				for _, d := range f.Decls {
					if function, ok := d.(*ast.FuncDecl); ok && function.Type.TypeParams == nil {
						function.Body = nil
					}
				}
			}
			return f, err
		},
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0"),
	}, patterns...)
}
