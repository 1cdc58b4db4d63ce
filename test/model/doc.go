// Package model explores every order in which claims, renewals, ends, orders and faults can meet, in small worlds, and
// asks at each step whether what leaderrun promises still holds. It decides with backends.Decide, DecideRenew,
// DecideFinish, DecideAbandon, DecideOrder and Mark.Admit themselves, so that it cannot drift from the code; the code
// around them it has in its own words: wrapper, guardian, network, and what is special to each kind of store. The rules of
// wrapper, guardian and engine themselves are tried by TestEveryOrder in package runner, which runs the real ones.
//
//	make model                                              all variants, up to their horizons
//	go test ./test/model                                    the small ones, and smaller
//	go test ./test/model -all -v -run TestVariants/tick     some
//
// A variant is a world: a kind of store, two or three candidates, faults that may befall them, and perhaps a rule that
// is left out. One without an omission must hold; one with a rule left out must be violated, and shows by the shortest
// trace what the rule is for. Who changes a rule changes its variants first.
//
// # What is modelled
//
// A request is sent, reaches the store, and its reply arrives; each of these is a step of its own that may come at any
// time, in any order, also after the end of the wrapper, and request and reply may be lost. A wrapper may be slow
// for ever, which is what SIGKILL and SIGSTOP are; only the guardian's kill at the end of the validity is urgent: time does
// not pass it while the child lives. Claims at stores with compare-and-swap read, decide and write in two steps. Time is
// counted in units; the default world has a TTL of 3 with a margin of 1, and ends at 7; large ones end earlier.
//
// The kinds of stores are Redis (server time, the mark, quarantine, replicas, WAIT, failovers, partitions, restarts,
// dumps, FLUSHALL, evictions), etcd (beats, revisions), Consul (sessions that end early or late, the text of the lock,
// beats in the record), file (the lock, its text, who has its descriptor), PostgreSQL (one row with a version, server time,
// the mark, timelines, standbys that are waited for or lag, restarts, snapshots and backups), ZooKeeper (sessions that end
// when they like, a follower that lags, beats by whatever is written) and Kubernetes (one object in which nothing ends by
// itself, clocks of hosts that say anything). Candidates come for nothing in particular, for ticks under skip and rerun, or
// for a key; they give up, and take their claim back. Operators ask, take the lease away, answer for a death, and forget;
// their orders may arrive twice.
//
// # What is asked
//
// That no two children are alive at once. That each run has a token above all before it. That a tick or key starts
// once under skip, at most --max-attempts times under rerun, and never again once a wrapper knows that it is
// done; that one which was taken back unstarted is not lost, and an unfinished one not passed over under rerun. That no
// stale Finish is accepted. And from every state that is reached: that a healthy candidate is granted in time, if all
// others fall silent.
//
// # What it stands on
//
//   - Clocks run at one rate, are not stepped, and the store's is the same as the hosts'. The margin of one unit stands
//     for the difference of the rates.
//   - A result holds up to the horizon, for so many candidates, requests in flight and faults as the variant has.
//   - Visited states are kept as 128-bit hashes.
//   - A claim at Redis is one step here. In fact it reads, decides, and writes if nothing has changed, as at PostgreSQL here, and
//     as TestEveryOrder does it; that all is compared which was read, tests of backends/redis show. What stores do around the
//     decisions is written anew here, in the store_ files.
//   - The mark of PostgreSQL is compared, or merged, when a claim writes. Its versions are counted in the model; that they are
//     drawn makes them differ where the model lets them meet.
//   - Revisions, resource versions and transaction numbers never come again, but where a variant restores a cluster.
//   - What an emptied store has forgotten may run again: that is a documented limit. So is all that is called so in a variant.
//   - Within one unit of the model many things happen, but tokens tell milliseconds. So a fault that loses tokens comes
//     before the grants of its unit.
//
// # What is not modelled
//
// The cadence of renewals, grace and SIGTERM; a renewal before the start; clocks that are stepped, and ticks in the
// future; start deadlines, missed and failed ticks; schedules and who has an outdated one; the highest token that a
// process has seen; watches (a claim that is refused tells the same); Consul's lock-delay, which only refuses more; etcd
// leases that end late; members of a cluster that do not know of each other's writes; Redis Cluster; records that drop
// old runs and keys; two jobs, but for the mark that they share; acknowledgements of an operator's order; standbys of
// PostgreSQL that come to the same timeline, and dumps of its tables that are read back; hosts of one store that allow
// different TTLs, but for one variant of Redis.
package model
