// Package bed is a bed on which leaderrun is tormented, and its peers beside it. Hosts are network namespaces on
// one kernel, servers are real ones in namespaces of their own, and the command that everybody wants to run is a
// witness: it writes down when it began, that it is alive, and when it was last. Faults come at random from a seed,
// or one at a time by name.
//
// What happened is a Log: the witness's spans, the ends of the wrappers, the faults, and two ledgers that the runs
// wrote to. Judge reads a Log and nothing else, so that its rules can be tested without a bed.
package bed
