package fenceproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/panics"
)

// passage is a request on its way to UPSTREAM and back. A client that stands still has only so long, and so has an UPSTREAM that
// nobody hears: neither may keep newer runs out for ever.
type passage struct {
	token    string        // "": the request is not fenced
	holds    bool          // newer runs wait until UPSTREAM has done with it
	patience time.Duration // see forwarder
	answer   *http.ResponseController

	client context.Context // ends when the client goes away
	ending context.Context // ends when the proxy does
	life   context.Context // ends when the request to UPSTREAM does
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	stage    stage
	hurried  bool          // a newer run has waited for long enough
	unread   bool          // something of the request may be missing
	limit    *time.Timer   // until giveUp
	conn     *upstreamConn // that was used last
	upgraded *bothWays     // nil: the connection is an ordinary one
	unhook   func() bool   // of what is done with it when the proxy ends
}

const leftoverPatience = time.Second // for the rest of a request that was answered already

// stage is how far a passage has come.
type stage int

const (
	asking   stage = iota // the answer has not begun. limit is for UPSTREAM, and does not run while the client is listened to
	awaited               // it has begun, and somebody waits for the rest, which may take as long as it likes
	deserted              // it has begun, and nobody waits for the rest: limit is for UPSTREAM again
	over                  // it is given up, or at its end
)

type passageKey struct{}

func passageOf(r *http.Request) *passage {
	p, _ := r.Context().Value(passageKey{}).(*passage)
	return p
}

func (p *passage) gotConn(got httptrace.GotConnInfo) {
	conn := got.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, _ = conn.(*upstreamConn)
}

// answered takes the beginning of UPSTREAM's answer.
func (p *passage) answered(r *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	service, isBoth := r.Body.(twoWay)
	if isBoth && r.StatusCode == http.StatusSwitchingProtocols {
		both := &bothWays{service: service, passage: p}
		p.unhook = context.AfterFunc(p.ending, panics.Caught(func() { _ = both.CloseWrite() }))
		p.upgraded, r.Body = both, both
	} else {
		r.Body = &restOfAnswer{r.Body, p}
	}
	if p.stage != asking {
		return
	}
	p.limit.Stop()
	p.stage = awaited
	if p.client.Err() != nil || p.hurried {
		p.stage = deserted
		p.limit.Reset(p.patience)
		_ = p.answer.SetWriteDeadline(time.Now().Add(p.patience))
	}
}

// yield sees to it that a newer run does not wait for a client for ever, which may go on sending, or taking its answer, bit by bit.
func (p *passage) yield(newer <-chan struct{}) {
	select {
	case <-newer:
	case <-p.life.Done():
		return
	}
	select {
	case <-time.After(p.patience):
		p.hurry()
	case <-p.life.Done():
	}
}

// hurry takes nothing more from the client, and gives it no more than what is under way. From now on only UPSTREAM counts.
func (p *passage) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage == over {
		return
	}
	p.hurried = true
	if both := p.upgraded; both != nil {
		panics.Go(func() { _ = both.CloseWrite() }) // it needs mu
		return
	}
	if p.unread {
		_ = p.answer.SetReadDeadline(time.Now())
	}
	if p.stage == awaited {
		p.stage = deserted
		p.limit.Reset(p.patience)
	}
	if p.stage == deserted {
		_ = p.answer.SetWriteDeadline(time.Now())
	}
}

// desert is called when nobody waits for the rest of the answer any more.
func (p *passage) desert() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage == awaited {
		p.stage = deserted
		p.limit.Reset(p.patience)
	}
}

// giveUp ends the request. A client that still sends must not hold it up: it is not read from any more.
func (p *passage) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage != asking && p.stage != deserted {
		return
	}
	p.stage = over
	p.cancel(errSlow)
	now := time.Now()
	_ = errors.Join(p.answer.SetReadDeadline(now), p.answer.SetWriteDeadline(now.Add(p.patience)))
	if p.upgraded != nil {
		panics.Go(func() { _ = p.upgraded.service.Close() }) // TLS may take a moment
	}
}

// end returns when the connection to UPSTREAM is as it should be. The rest of a request that nobody wants is not waited for long.
func (p *passage) end() {
	if p.upgraded != nil {
		p.unhook()
		_ = p.upgraded.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unread && p.stage != over {
		_ = p.answer.SetReadDeadline(time.Now().Add(leftoverPatience))
	}
	p.stage = over
	p.limit.Stop()
	p.cancel(nil)
}

// listen is called before the client is read from, which then has only so long. It says whether anybody still wants to know.
func (p *passage) listen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.stage {
	case over:
		return false
	case asking:
		p.limit.Stop()
	case awaited, deserted:
	}
	if !p.hurried {
		_ = p.answer.SetReadDeadline(time.Now().Add(p.patience))
	}
	return true
}

// heard is called when something has come from the client, or nothing more will.
func (p *passage) heard(last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage == asking {
		p.limit.Reset(p.patience)
	}
	if last && p.stage != over {
		p.unread = false
		_ = p.answer.SetReadDeadline(time.Time{})
	}
}

// tell is called before the client is written to, which then has only so long.
func (p *passage) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage != over && !p.hurried {
		_ = p.answer.SetWriteDeadline(time.Now().Add(p.patience))
	}
}

// breakOff tells UPSTREAM that no more of the request comes, and returns when it has closed the connection, or nobody wants to know.
func (p *passage) breakOff() {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return
	}
	_ = conn.CloseWrite()
	select {
	case <-conn.closed:
	case <-p.life.Done():
	}
}

// clientBody is the body of a request. If it is broken off, as by the kill of a run, the connection to UPSTREAM must not break:
// UPSTREAM goes on with what it has got, and nobody would know how long.
type clientBody struct {
	io.ReadCloser

	passage *passage
}

func (b *clientBody) Read(buffer []byte) (int, error) {
	p := b.passage
	if !p.listen() {
		return 0, errSlow
	}
	n, err := b.ReadCloser.Read(buffer)
	p.heard(errors.Is(err, io.EOF))
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	p.desert()
	if p.holds {
		p.breakOff()
	}
	return n, fmt.Errorf("%w: %w", errBrokenOff, err)
}

// restOfAnswer is what follows the headers. If newer runs wait for it, it is read to its end before it is closed: then UPSTREAM has
// done what it was asked.
type restOfAnswer struct {
	io.ReadCloser

	passage *passage
}

func (b *restOfAnswer) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	b.passage.tell()
	return n, err
}

func (b *restOfAnswer) Close() error {
	if b.passage.holds {
		b.passage.desert()
		_, _ = io.Copy(io.Discard, b.ReadCloser)
	}
	return b.ReadCloser.Close()
}

// upstreamConn is a connection to UPSTREAM. Its end can be waited for.
type upstreamConn struct {
	*net.TCPConn

	closed chan struct{}
	once   sync.Once
}

func dialUpstream(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	plain, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("%s is no TCP connection", network)
	}
	return &upstreamConn{TCPConn: plain, closed: make(chan struct{})}, nil
}

func (c *upstreamConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.TCPConn.Close()
}

type twoWay interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// bothWays is a connection to UPSTREAM that has become something else, such as a WebSocket. When one side has said its last word
// the other one has only so long: the client may be stopped, and would keep newer runs out for ever.
type bothWays struct {
	service twoWay
	passage *passage
	reading sync.Mutex // service has a buffer
	ended   sync.Once

	asked, answered bool // the last word was said to UPSTREAM, and by it. They need passage.mu
}

func (b *bothWays) Write(p []byte) (int, error) { return b.service.Write(p) }

func (b *bothWays) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	n, err := b.service.Read(p)
	if err != nil {
		b.lastWord(&b.answered)
	}
	b.passage.tell()
	return n, err
}

// CloseWrite is called when the client has said its last word, or is not to say any more.
func (b *bothWays) CloseWrite() error {
	b.lastWord(&b.asked)
	return b.service.CloseWrite()
}

// lastWord is said by one side. After that of both nobody is listened to.
func (b *bothWays) lastWord(said *bool) {
	p := b.passage
	p.desert()
	p.mu.Lock()
	defer p.mu.Unlock()
	if *said = true; b.asked && b.answered && p.stage != over {
		_ = p.answer.SetReadDeadline(time.Now())
	}
}

// Close returns when UPSTREAM has said its own: it may have much to do with what the client has sent before it died.
func (b *bothWays) Close() error {
	b.ended.Do(func() {
		_ = b.CloseWrite()
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{b})
		_ = b.service.Close()
	})
	return nil
}
