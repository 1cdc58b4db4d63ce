// Package hosts makes the hosts of a test: network namespaces behind one switch, on one kernel, so that
// CLOCK_BOOTTIME tells on all of them what came first. It breaks their network and ends their processes. It needs
// root, and Linux.
package hosts
