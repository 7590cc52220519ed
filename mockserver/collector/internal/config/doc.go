// Package config reads the configuration file of the collector.
//
// decode.go decodes YAML into a [Config] and records the position of each setting. expand.go resolves
// references to environment variables and files. check.go checks the result. All problems are
// collected. Each problem has a position, a setting and a hint how to fix it.
package config
