// Package config reads the configuration of the command collector.
//
// A file is decoded with the place of each setting. What refers to a variable or a file
// is replaced, then what contradicts itself is looked for. All problems are gathered:
// each names the file, the line, the setting, and what would be right.
//
// # Files
//
//  1. load.go: a file is read, or checked
//  2. check.go: what contradicts itself
//  3. plans.go: the tracking plans of sources
//  4. secrets.go: which secrets are none
//  5. text.go: units
//  6. config.go: what can be set
//  7. decode.go: YAML, and the place of each problem
//  8. expand.go: variables and secrets
//  9. files.go: whether a file has changed
package config
