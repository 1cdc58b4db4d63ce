package s3fence

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

// What is taken of an answer that is no object, however long it goes on.
const (
	answerLimit    = 64 << 10         // in bytes
	answerPatience = 10 * time.Second // from its headers on
	headersLimit   = 256 << 10        // of any answer, in bytes
	saidLimit      = 400              // bytes of what the server says that are told
)

const notS3 = "that is not how S3 answers"

// refusalError is an answer that says no, in the words of S3.
type refusalError struct {
	status        int
	Code, Message string
	Region        string // the right one, where this was not
}

func (e *refusalError) Error() string {
	text := fmt.Sprintf("the server answers %d %.*s", e.status, saidLimit, cmp.Or(e.Code, http.StatusText(e.status)))
	if e.Message != "" {
		text += fmt.Sprintf(": %.*s", saidLimit, e.Message)
	}
	return text
}

// rest reads what an answer says, and closes it: what follows a change of the protocol (101) ends with no context. One that is not read to its end is a connection that is not used again.
func rest(r *http.Response) []byte {
	tooSlow := time.AfterFunc(answerPatience, func() { _ = r.Body.Close() })
	defer tooSlow.Stop()
	text, _ := io.ReadAll(io.LimitReader(r.Body, answerLimit))
	_ = r.Body.Close()
	return text
}

// refusal reads why a request was refused, and says whose fault it is. It closes the answer.
func (b *Bucket) refusal(r *http.Response) error {
	e := &refusalError{status: r.StatusCode}
	if xml.Unmarshal(rest(r), e) != nil {
		e.Code, e.Message, e.Region = "", "", ""
	}
	if e.Region = cmp.Or(e.Region, r.Header.Get("X-Amz-Bucket-Region")); !isRegion(e.Region) {
		e.Region = "" // it would be shown as something to type
	}
	return b.classify(e)
}

// classify tells what a retry may mend, what a condition has refused, and what somebody has to change.
func (b *Bucket) classify(e *refusalError) error {
	setup := func(kind fence.SetupKind, hint string) error {
		return &fence.SetupError{Kind: kind, Err: e, Hint: hint}
	}
	switch e.Code {
	case "NoSuchKey":
		return ErrNotFound
	case "NoSuchBucket":
		return setup(fence.Configuration, "make the bucket "+b.name+" first, or correct its name, the region or the endpoint")
	case "AccessDenied", "AllAccessDisabled":
		return setup(fence.Credentials, "these keys need s3:GetObject, s3:PutObject and s3:DeleteObject on KEY and KEY.d/*, and s3:ListBucket "+
			"on the bucket: without that one an object that is not there yet looks forbidden")
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired", "InvalidSecurity":
		return setup(fence.Credentials, keysHint)
	case "RequestTimeTooSkewed", "RequestExpired":
		return setup(fence.Configuration, "set the clock of this host: S3 takes what was signed within 15 minutes of its own")
	case "PreconditionFailed":
		return ErrCondition
	case "ConditionalRequestConflict", "OperationAborted":
		return ErrConflict
	case "NotImplemented":
		return unchecked("the server does not know conditional writes (501 NotImplemented)")
	case "RequestTimeout", "SlowDown", "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody":
		return e
	}
	switch s := e.status; {
	case s == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", ErrCondition, e)
	case s == http.StatusConflict:
		return fmt.Errorf("%w: %w", ErrConflict, e)
	case s == http.StatusNotImplemented:
		return setup(fence.Configuration, conditionsHint)
	case s >= 500, s == http.StatusTooManyRequests, s == http.StatusRequestTimeout:
		return e
	case e.Region != "" && e.Region != b.region:
		return setup(fence.Configuration, "the bucket is in another region: --region "+e.Region)
	case e.Code == "":
		e.Message = notS3
		return setup(fence.Configuration, "correct the endpoint: it must be the URL of a server that speaks S3")
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return setup(fence.Credentials, keysHint)
	}
	return setup(fence.Configuration, "")
}

// isRefusal says whether the answer to a Put is a no in the words of S3, so that what was answered was not carried out. An answer without
// them is a proxy's, which says nothing about what it has passed on.
func isRefusal(err error) bool {
	if e, ok := errors.AsType[*refusalError](err); ok && e.Code == "" {
		return false
	}
	return isSetup(err) || errors.Is(err, ErrCondition) || errors.Is(err, ErrConflict)
}

// conditional reads the refusal of a write as that of its condition: an object that is gone does not match.
func conditional(err error, c Condition) error {
	if errors.Is(err, ErrNotFound) && c.IfMatch != "" {
		return ErrCondition
	}
	return err
}

// transportError says why there was no answer, without the URL, which everybody knows by then.
func transportError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return remedy.Misconfigured("SSL_CERT_FILE names the authority that signed the server's certificate, the endpoint the host in it", "%w", err)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return remedy.Misconfigured("the endpoint begins with http:// here", "%w", err)
	}
	switch op, ok := errors.AsType[*net.OpError](err); {
	case errors.Is(err, context.Canceled):
		return err
	case ok && op.Op == "dial":
		return fmt.Errorf("cannot connect: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the server was silent for %v: %w", silence, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the server hung up without an answer: %w", err)
	}
	return err
}
