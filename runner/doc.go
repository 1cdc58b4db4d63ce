// Package runner holds a lease over the run of a command, from the claim to the release. It knows no backend
// and no flags.
//
// A machine (machine.go) decides, and a loop (loop.go) does what it wants: the loop waits for an input, reads the clocks, has the
// machine take a step, and performs the actions that this returns. The machine is pure, so what it does in any order of inputs
// can be read from the table below, and is tried with random ones.
//
// # Invariants
//
// Given a store that honours leases, and a process tree that obeys its deadlines:
//
//  1. The command runs only under a valid lease. TestSilentBackendEndsTheRunBeforeTheLease, TestDefiniteLossKillsAtOnce and
//     TestNextTryNeedsAFreshLease fail otherwise.
//  2. A lease counts from t0, which is read before the request is sent that the store answered.
//     TestValidityCountsFromTheRequest and TestReplyAfterTheEndCountsAsNone fail otherwise.
//  3. The whole tree is dead before the lease is released, before it can run out, and before another try starts.
//     TestTreeThatSurvivesItsLeaseIsNotReleased, TestSuspendPastTheEndKillsBeforeAnythingElse and
//     TestNoTryBeginsBeforeTheTreeIsDead fail otherwise.
//  4. What a command came to that has ended for good stands. There are two exceptions: the loss of the lease; and the signal that
//     the command died of, which may reach leaderrun a moment after the end. TestOutcomeStandsWhileLeftoversAreEnded and
//     TestLeaseIsLostWhileLeftoversAreEnded fail otherwise.
//  5. The token only grows: no claim has a floor below a token that was seen. TestTokenThatARefusalShowsIsAFloor and
//     TestTokenGrowsPastThatOfTheEarlierTick fail otherwise.
//
// TestInvariants looks for all five after every step of a machine in random worlds. TestEveryOrder does so in small worlds of two or
// three machines, the engine of package backends and a store in memory, in every order in which their steps and a few faults can
// come. In doubt the command does not run.
//
// What cannot be guaranteed: that effects stop with the processes. A write already sent lands after SIGKILL, and a machine that
// is paused as a whole notices nothing. The fencing token in the grant is for those.
//
// # Phases
//
//	phase        input                                        next phase   actions
//	-----------  -------------------------------------------  -----------  ------------------------------------
//	sleeping     the tick has come                            claiming     claim
//	claiming     granted in time                              granted
//	             held, and there is time to wait              standby      watch, the first time
//	             vanished, quarantined                        standby
//	             no answer, and patience is left              standby
//	             outdated, the first time                     proving      prove
//	             any other answer                             *
//	             signal, cancelled, unwanted                  withdrawing  hang up
//	standby      it is time, or there is news                 claiming     claim
//	proving      a proof, none                                claiming, *  claim
//	withdrawing  the answer to the claim                      *
//	granted      idle, and the lease is fresh                 preparing    prepare
//	             signal, cancelled, unwanted, lease lost      releasing    abandon
//	pausing      idle, the pause is over, the lease is fresh  preparing    prepare
//	             signal, cancelled, broken, lease lost        releasing    finish
//	preparing    prepared, and then idle                      starting     start
//	             anything else                                             as in the phase before
//	starting     it runs                                      running
//	             nobody knows                                 running      (the wrapper kills the tree)
//	             it does not                                  releasing    abandon; after another try: finish
//	running      signal                                       running      pass it on; the second to end: kill
//	             timeout, cancelled, broken                   running      SIGTERM; after --kill-after: kill
//	             the command has ended                        sweeping
//	sweeping     signal                                       sweeping     pass it on; no other try follows
//	             cancelled, broken                            sweeping     no other try follows, where one was to
//	             the tree is dead                             releasing    finish
//	             the same, and another try follows            pausing
//	running,     Term: the lease was not renewed              same         terminate
//	sweeping     Kill                                         same         kill
//	             the store says that the lease is lost        same         kill
//	             killed, not dead, and the lease has run out  over         (nothing is released)
//	releasing    done, lost, or the lease has run out         over
//	             no answer, and there is time                 releasing    finish, abandon again
//
// An asterisk is over, by way of releasing where a claim of ours may still reach the store: it is abandoned. From granted to
// sweeping but for preparing and starting, renewals go out when they are due, and checks are answered. Whoever is over hangs up
// what is under way, and sends away who watched over the tree, unless that may live.
package runner
