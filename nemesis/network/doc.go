// Package network creates hosts that are connected by a switch, and cuts connections between
// them.
//
// A [Host] is a kernel network namespace with one interface. This process forwards frames
// between the interfaces, like a switch. If a connection between two hosts is cut, it drops their
// frames without notice, as with a broken cable behind a switch or a firewall rule. This process
// also has an interface on the switch, so it can always reach all hosts.
//
// The package needs root, Linux, /dev/net/tun and the program ip.
package network
