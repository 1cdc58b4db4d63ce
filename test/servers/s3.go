package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// The keys of the user who may do everything on every S3 server.
const (
	S3AccessKey = "LEADERRUNTESTKEY"
	S3SecretKey = "the-secret-of-the-tests"
)

// S3Options say how an S3 server differs from one on a port of its own without TLS.
type S3Options struct {
	TLS        *Certificates
	Versioning bool // buckets can have versions
}

// S3Server is a running S3 gateway on a folder: a real one, which signs, compares and stores as S3 does.
type S3Server struct {
	*server
	opts S3Options
}

// S3 starts a server with one bucket, "bucket".
func S3(t testing.TB, o S3Options) *S3Server {
	t.Helper()
	s := &S3Server{opts: o}
	s.server = newServer(t, "s3", At{}, o.TLS, s)
	for _, dir := range []string{"iam", "versions"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t)
	s.API(t, "PUT", "/bucket", "")
	return s
}

func (s *S3Server) command(testing.TB) []string {
	args := []string{
		"--port", s.Addr(), "--access", S3AccessKey, "--secret", S3SecretKey, "--iam-dir", filepath.Join(s.dir, "iam"),
		"--quiet", "--keep-alive",
	}
	if c := s.opts.TLS; c != nil {
		args = append(args, "--cert", c.ServerCert, "--key", c.ServerKey)
	}
	args = append(args, "posix")
	if s.opts.Versioning {
		args = append(args, "--versioning-dir", filepath.Join(s.dir, "versions"))
	}
	return append(args, s.Data())
}

// Answers asks the server for its buckets.
func (s *S3Server) Answers() error {
	_, err := s.try(statusTimeout, "GET", "/", "")
	return err
}

// Endpoint returns the URL of the server.
func (s *S3Server) Endpoint() string { return s.http() }

// User makes a user who may not do anything until a bucket's policy says so.
func (s *S3Server) User(t testing.TB, access, secret string) {
	t.Helper()
	s.API(t, "PATCH", "/create-user",
		fmt.Sprintf("<Account><Access>%s</Access><Secret>%s</Secret><Role>user</Role></Account>", access, secret))
}

// API sends a request as the user who may do everything, and returns the body of the answer.
func (s *S3Server) API(t testing.TB, method, path, body string) string {
	t.Helper()
	text, err := s.TryAPI(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TryAPI is API for a request that may fail; an answer outside of 200 to 299 is an error.
func (s *S3Server) TryAPI(method, path, body string) (string, error) {
	return s.try(patience, method, path, body)
}

func (s *S3Server) try(timeout time.Duration, method, path, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := s.Ask(ctx, method, path, body, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d: %s", method, path, r.StatusCode, strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// Ask sends a request as the user who may do everything, with headers of its own, and returns the answer. The caller
// closes its body.
func (s *S3Server) Ask(ctx context.Context, method, path, body string, header map[string]string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, s.Endpoint()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		q.Header.Set(name, value)
	}
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:])
	q.Header.Set("X-Amz-Content-Sha256", hash)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: S3AccessKey, SecretAccessKey: S3SecretKey}
	if err := signer.SignHTTP(ctx, keys, q, hash, "s3", "us-east-1", time.Now()); err != nil {
		return nil, err
	}
	return s.place.client().Do(q)
}

// Keys returns the keys of all objects of the bucket that begin with a prefix.
func (s *S3Server) Keys(t testing.TB, prefix string) []string {
	t.Helper()
	var keys []string
	rest := s.API(t, "GET", "/bucket?list-type=2&prefix="+prefix, "")
	for {
		_, after, ok := strings.Cut(rest, "<Key>")
		if !ok {
			return keys
		}
		var key string
		key, rest, _ = strings.Cut(after, "</Key>")
		keys = append(keys, key)
	}
}
