// Package servers provides the NATS servers of a journal: an embedded one, which can be
// restarted after a failed write, or an existing cluster. It checks the versions of a
// cluster's servers and whether they sync messages before they acknowledge them.
package servers
