// Package history lets many clients ask one store at once, through a network that loses what it carries and of a
// server that is frozen or killed now and then, and has a checker of linearizability judge what they were answered.
// It consists of tests only.
//
// A history is all that was asked and answered about one job, with the instants of each call and return on the clock
// that leases are counted on. The checker looks for an order of single steps, each between its call and its return,
// that the lease of the model could have taken. An outcome that is unknown is a step that may come at any later time,
// or never.
package history
