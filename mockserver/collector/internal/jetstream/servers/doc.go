// Package servers is the NATS servers under a journal: the one within the process, which
// is started again after it could not write, or those of a cluster, which are asked which
// version they are and whether they acknowledge messages before these are on the disk.
package servers
