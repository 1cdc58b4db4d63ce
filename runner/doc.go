// Package runner holds a lease over the run of a command, from the claim to the release. It knows no backend
// and no flags.
//
// A machine (machine.go) decides, and a loop (loop.go) acts. The loop waits for an input, reads the clocks, has the machine take a
// step, and performs the actions that the step returns. The machine is pure: what it does depends only on its inputs and their
// order. The table below shows its course, and tests can try it with random inputs.
//
// # Invariants
//
// They hold if the store honours leases and the process tree obeys its deadlines. In doubt the command does not run.
//
//  1. The command runs only under a valid lease. TestSilentBackendEndsTheRunBeforeTheLease, TestDeadlineComesBeforeAReply,
//     TestDefiniteLossKillsAtOnce and TestNextTryNeedsAFreshLease fail otherwise.
//  2. A lease counts from t0, the instant before the loop sends the request that the store answered.
//     TestValidityCountsFromTheRequest and TestReplyAfterTheEndCountsAsNone fail otherwise.
//  3. The whole tree is dead before the lease is released, before it can run out, and before another try starts.
//     TestTreeThatSurvivesItsLeaseIsNotReleased, TestSuspendPastTheEndKillsBeforeAnythingElse and
//     TestNoTryBeginsBeforeTheTreeIsDead fail otherwise.
//  4. Once the command has ended and no other try follows, its outcome stands. There are two exceptions: the loss of the lease,
//     and the signal that the command died of, which may reach leaderrun a moment after the command's end.
//     TestOutcomeStandsWhileLeftoversAreEnded and TestLeaseIsLostWhileLeftoversAreEnded fail otherwise.
//  5. The token only grows: each claim's floor is at least the highest token that the machine has seen.
//     TestTokenThatARefusalShowsIsAFloor and TestTokenGrowsPastThatOfTheEarlierTick fail otherwise.
//
// TestInvariants checks all five after every step of a machine in random worlds. TestEveryOrder builds small worlds from two or
// three machines, the engine of package backends and a store in memory, and tries every order in which their steps and a few
// faults can come.
//
// A machine cannot guarantee that effects stop with the processes: a write that was already sent arrives after SIGKILL, and a
// host that is paused as a whole notices nothing. The fencing token in the grant lets the resource refuse such writes.
//
// # Phases
//
//	phase        input                                        next phase   actions
//	-----------  -------------------------------------------  -----------  ------------------------------------
//	sleeping     the tick has come, and Yield is over         claiming     claim
//	claiming     granted in time                              granted
//	             held or reserved, and there is time to wait  standby      watch, if no watch is open
//	             vanished or quarantined, and not too late    standby
//	             no answer, and patience is left              standby
//	             outdated, the first time                     searching    search
//	             any other answer                             *
//	             signal, cancelled, unwanted                  withdrawing  hang up
//	standby      it is time, or there is news                 claiming     claim
//	searching    an unclaimed instant is found, or not        claiming, *  claim
//	sleeping, standby, searching:
//	             signal, cancelled, unwanted                  *
//	withdrawing  the answer to the claim                      *
//	granted      idle, and the lease is fresh                 preparing    prepare
//	             signal, cancelled, unwanted, lost, Term      releasing    abandon
//	pausing      idle, the pause is over, the lease is fresh  preparing    prepare
//	             signal, cancelled, broken, lost, Term        releasing    finish
//	preparing    prepared, and then idle                      starting     start
//	             Term                                         releasing    abandon; after another try: finish
//	             anything else                                             as in the phase before
//	starting     it runs                                      running
//	             nobody knows                                 running      (the wrapper kills the tree)
//	             it does not                                  releasing    abandon; after another try: finish
//	running      signal                                       running      pass it on; the second to end: kill
//	             timeout, cancelled, broken                   running      SIGTERM; after --kill-after: kill
//	             the command has ended                        sweeping
//	sweeping     signal                                       sweeping     as in running; no other try follows
//	             cancelled, broken, and a try was to follow   sweeping     SIGTERM; no other try follows
//	             the tree is dead                             releasing    finish
//	             the same, and another try follows            pausing
//	running,     Term: the lease was not renewed              same         terminate
//	sweeping     Kill                                         same         kill
//	             the store says that the lease is lost        same         kill
//	             the guardian is lost                         same         (the wrapper kills the tree)
//	             killed, not dead, and the lease has run out  over         (nothing is released)
//	releasing    done, lost, or the lease has run out         over
//	             no answer, and there is time                 releasing    finish, abandon again
//	             no answer to a claim that is taken back      over
//	             SIGTERM, SIGINT, between two requests        over
//	             SIGTERM, SIGINT, during a request            releasing    (no third request follows)
//
// An asterisk stands for over; where a claim of ours may still reach the store, releasing comes first and takes the claim back.
// "Signal" stands for a signal that ends a run; any other one is passed on in running and sweeping, and means nothing elsewhere.
// Renewals go out when they are due in granted, pausing, running and sweeping. A check is answered by the next renewal, or with a no
// after a sixth of the TTL; before the grant, without a lease and after the run it gets a no at once. When an attempt is over, the machine
// hangs up the requests that are under way and dismisses the guardian, unless the tree may still live.
package runner
