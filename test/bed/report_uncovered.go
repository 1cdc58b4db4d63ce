package bed

// Uncovered is what no bed of this package shows.
var Uncovered = []string{
	"a virtual machine that is paused, migrated or set back by its host: a frozen host stands for it",
	"suspend and resume of a real machine: a test in a time namespace stands for it",
	"clocks of hosts that run at different rates, or apart: all hosts share one kernel",
	"a server that answers wrongly, or a disk that says it has written and has not",
	"more than one data centre; packets that are delayed, reordered or damaged one by one (connections are delayed as a whole)",
	"Redis Cluster, Valkey, other versions than those named here, and managed services",
}
