// Package release tries what `make release` makes as those do who install it: packages in roots of their own, the image without a
// network, units, manual page and completions in the programs that read them, and a first job on two hosts.
package release
