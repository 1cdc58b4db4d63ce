// Package panics says what happens when a goroutine panics. No other goroutine can recover from that: Go ends the program with a
// stack and exit code 2. A program can choose something else once (Handle). Every goroutine of this module starts with Go or Await, or
// hands its panic to the goroutine that waits for it (package runner). What AfterFunc of packages context and time calls, each time in
// a goroutine of its own, is Caught, unless it only ends or limits a connection.
//
// The package does not cover the goroutines of libraries, and what Go calls a fatal error.
package panics

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Panic is a panic that was recovered from, with the stack of its goroutine.
type Panic struct {
	Value any
	Stack []byte
}

// Error is the value in words.
func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// Of makes a Panic of what recover returned. It is to be called by the deferred function that did.
func Of(recovered any) *Panic {
	if p, ok := recovered.(*Panic); ok { // handed on by another goroutine
		return p
	}
	return &Panic{Value: recovered, Stack: debug.Stack()}
}

var handler atomic.Pointer[func(*Panic)]

// Handle lets f end the program after a panic: f must not return. Without it, as in a program that only links packages of
// this module, a panic is what it is without this package.
func Handle(f func(*Panic)) { handler.Store(&f) }

// Catch is for defer: it hands a panic of the function that defers it to the handler.
func Catch() {
	end := handler.Load()
	if end == nil {
		return
	}
	if p := recover(); p != nil {
		(*end)(Of(p))
	}
}

// Await calls f in a goroutine of its own, and returns what it returns, or as soon as the context ends: then f goes on by itself.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	Go(func() {
		value, err := f()
		done <- result{value, err}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Go calls f in a goroutine of its own.
func Go(f func()) { go Caught(f)() }

// Caught returns a function that calls f, and hands a panic of it to the handler.
func Caught(f func()) func() {
	return func() {
		defer Catch()
		f()
	}
}
