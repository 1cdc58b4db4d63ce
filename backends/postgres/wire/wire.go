// Package wire sends statements to PostgreSQL. A connection carries one batch of statements at a time: one round trip and one
// transaction. Parameters and results are text.
//
// Of pgx, pgconn logs in, and pgproto3 writes and reads messages. Both read through a filter (source), which passes only the messages
// that are allowed at that moment (logIn), and only as many bytes as there is room for. The package repeats nothing, keeps no hidden
// pool, does nothing unasked, and cancels a batch only if the batch says so. That is why it uses only the log-in and the request to
// cancel of pgconn (docs/design/adr/0018 and 0019). Messages have the names of PostgreSQL's manual, chapter "Frontend/Backend Protocol".
package wire

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// Security says whether a connection is encrypted, and who is trusted on the other side.
type Security int

// The levels of security.
const (
	Plain  Security = iota // no TLS
	Prefer                 // TLS if the server offers it; without it anybody could say that it does not
	Must                   // TLS; the tls.Config says what of the certificate is verified
)

// Config says how to connect.
type Config struct {
	Addrs       []string // HOST:PORT, tried in this order
	User        string   // where Login has none
	Login       *backendurl.Login
	Database    string
	Application string // shown in pg_stat_activity; a Dedicated connection adds its purpose
	Security    Security
	TLS         *tls.Config // of Prefer and Must; without a ServerName the host is it

	// CancelLimit is how long it may take to tell a server that nobody waits for a batch any more; 0: a second.
	CancelLimit time.Duration

	// Binding is libpq's channel_binding: disable, prefer or require; "": prefer. With require nothing but SCRAM that is bound to the
	// server's certificate is answered.
	Binding string

	// ConnectTimeout bounds the connection to one address, beside the context; 0: nothing does.
	ConnectTimeout time.Duration

	// ClearText allows the password to be sent as it is, inside of TLS, if the server asks for that. Without a certificate whose
	// name is verified whoever answers gets it.
	ClearText bool
}

// Statement is one statement with parameters for $1, $2 and so on.
type Statement struct {
	SQL  string
	Args []Value

	// Cancel says that the server is told when nobody waits for the batch any more. It is for what may wait on the server
	// without a limit, with locks that it holds, and costs a connection.
	Cancel bool

	// List says that the answer may have many rows.
	List bool
}

// Value is the text of a parameter or of a column. The zero Value is NULL.
type Value struct {
	Text  string
	Valid bool // it is not NULL
}

// Text is a value that is not NULL.
func Text(s string) Value { return Value{Text: s, Valid: true} }

// Row is one row of a result.
type Row []Value

// Reply is the answer to a batch.
type Reply struct {
	Rows    [][]Row  // of each statement
	Notices []*Error // warnings and the like, in the order in which they came
}

// Error is what a server says when it refuses something, or warns. Its texts are in the server's language; Code and
// Routine are not.
type Error struct {
	Severity string // ERROR, FATAL, PANIC; WARNING, NOTICE and others of a notice
	Code     string // SQLSTATE
	Message  string
	Routine  string // of the server's source
}

func (e *Error) Error() string {
	return fmt.Sprintf("postgres: %s (%s)", e.Message, e.Code)
}

// Refused says that a batch that was answered so has certainly changed nothing: its transaction was rolled back. After
// a FATAL the connection is gone; and of the connection behind it (class 08) a pooler speaks, which does not know.
func (e *Error) Refused() bool { return e.Severity == "ERROR" && !strings.HasPrefix(e.Code, "08") }

// ProtocolError says that what answers does not speak this protocol, or speaks of something that was not asked for. After it
// the outcome of a batch is unknown.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return "postgres: " + e.What }

func unexpected(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}
