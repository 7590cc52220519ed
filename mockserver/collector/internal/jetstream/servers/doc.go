// Package servers provides the NATS servers of a journal. They are either an embedded server,
// which can be restarted after a failed write, or an existing cluster. The package checks the
// versions of a cluster's servers, and whether the servers sync messages before they acknowledge
// them.
package servers
