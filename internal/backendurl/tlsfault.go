package backendurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/leaderrun/leaderrun/backends"
)

// TLSRemedies are what helps where TLS fails, in the words of a driver's own options.
type TLSRemedies struct {
	CA    string // the certificate of the server is not one for this host by an authority that is trusted
	Cert  string // the server does not take our certificate, or misses it
	Plain string // what answers speaks no TLS; "": what answers so is judged otherwise
}

// RemediesOf are the remedies of a driver whose URLs have the options of TLSFiles; plain is its scheme without TLS.
func RemediesOf(plain string) TLSRemedies {
	return TLSRemedies{
		CA:    "?ca=FILE names the authority that signed the server's certificate, ?server-name= the name in it",
		Cert:  "this server wants a client certificate that it knows: ?cert=FILE&key=FILE",
		Plain: "this server speaks no TLS on this port: " + plain + "://",
	}
}

const badVersion = "protocol version not supported"

// The other alerts by which a server refuses a client for good, from the texts of crypto/tls.
func refusals() []string {
	return []string{
		"bad certificate", "unsupported certificate", "revoked certificate", "expired certificate", "unknown certificate",
		"unknown certificate authority", "access denied", "certificate required",
		"handshake failure", // over TLS 1.2 also: no certificate
	}
}

// Fault says in which way, that no retry mends, TLS failed. nil: it did not, or may work the next time. No request was served.
func (r TLSRemedies) Fault(err error) *backends.PermanentError {
	fault := func(kind backends.PermanentKind, hint string) *backends.PermanentError {
		return &backends.PermanentError{Kind: kind, Err: err, Hint: hint}
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return nil // or a host that has just booted has not set its clock: both are mended without us
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fault(backends.Configuration, r.CA)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok && r.Plain != "" {
		return fault(backends.Configuration, r.Plain)
	}
	// The standard library does not export the type of an alert that came over a connection: a tls.AlertError is one of QUIC.
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return nil
	}
	switch alert := strings.TrimPrefix(op.Err.Error(), "tls: "); {
	case alert == badVersion:
		return fault(backends.Configuration, "the server wants another version of TLS")
	case slices.Contains(refusals(), alert):
		return fault(backends.Credentials, r.Cert)
	}
	return nil
}

// StartTLS begins TLS on a connection that was opened to addr. The name in the certificate must be its host, unless config has one.
func StartTLS(ctx context.Context, raw net.Conn, config *tls.Config, addr string, protocols ...string) (*tls.Conn, error) {
	config = config.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	config.NextProtos = protocols
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return conn, nil
}

// Opening adds to the error of a connection that ended while it was opened what may be wrong, as most servers say nothing more about
// it: that it is another kind of server, or that one side speaks TLS and the other does not. Server is the kind that is meant;
// encrypted says whether we speak TLS. A connection that we closed ourselves, for want of an answer in time, is such a one, and
// what answers a handshake with nothing.
func Opening(err error, encrypted bool, server string) error {
	var ended bool
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, net.ErrClosed} {
		ended = ended || errors.Is(err, end)
	}
	switch {
	case encrypted && (ended || errors.Is(err, context.DeadlineExceeded)):
		return fmt.Errorf("%w (is this %s, and does this port speak TLS?)", err, server)
	case !encrypted && ended:
		return fmt.Errorf("%w (is this %s, and does this port want TLS?)", err, server)
	}
	return err
}
