// Package acceptance holds tests of the whole program against real servers, real processes and real faults,
// with a witness as the command: a process tree that writes down that it is alive, every few milliseconds,
// on the clock that all processes of this machine share. Whatever is broken, the beats of two runs never
// overlap, and every token is greater than the ones before it.
package acceptance
