package s3fence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

const (
	connecting = 10 * time.Second // how long a connection may take to be there
	// silence is how long nothing may move on a connection. It is no limit on a request: a large object takes its time.
	silence = time.Minute
	// beginning is how long a server may take from the end of a request to the end of the headers of its answer.
	beginning = 5 * time.Minute
)

// Config says where a bucket is.
type Config struct {
	Name     string // of the bucket
	Region   string // "": us-east-1
	Endpoint string // the URL of a server; "": Amazon's
	Keys     Keys

	// Dial connects to the server; nil: as usual.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Bucket is a bucket, over HTTP: three calls of the S3 API.
type Bucket struct {
	name, region string
	keys         aws.Credentials
	root         url.URL // of all keys
	client       *http.Client
	signer       *v4.Signer
}

var _ Store = (*Bucket)(nil)

// NewBucket returns a bucket. It connects to nobody yet. The error is a *fence.SetupError.
func NewBucket(c Config) (*Bucket, error) {
	b := &Bucket{
		name: c.Name, region: cmp.Or(c.Region, "us-east-1"),
		keys: aws.Credentials{AccessKeyID: c.Keys.Access, SecretAccessKey: c.Keys.Secret, SessionToken: c.Keys.Session},
		// S3 alone signs the path as it is sent.
		signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
	}
	root, err := rootOf(c.Endpoint, b.region, c.Name)
	if err != nil {
		return nil, remedy.Misconfigured("", "%w", err)
	}
	b.root = root
	b.client = &http.Client{
		// A redirect leads to another region, for which the signature is wrong.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer(c.Dial), TLSHandshakeTimeout: connecting,
			ExpectContinueTimeout: time.Second, IdleConnTimeout: silence / 2, DisableCompression: true,
			ResponseHeaderTimeout: beginning, MaxResponseHeaderBytes: headersLimit,
		},
	}
	return b, nil
}

// rootOf is the URL below which the keys of a bucket are. Amazon has a host for each bucket, others a path; and so has Amazon for
// names with dots, which no certificate fits.
func rootOf(endpoint, region, bucket string) (url.URL, error) {
	if strings.Trim(bucket, ".") == "" || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != "" {
		return url.URL{}, fmt.Errorf("%q is not the name of a bucket", bucket)
	}
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		switch {
		case err != nil || strings.ContainsAny(endpoint, "@?#"): // it may hold a password
			return url.URL{}, errors.New("the endpoint is not the URL of a server alone, such as https://s3.example.com, without user, password and query")
		case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return url.URL{}, fmt.Errorf("the endpoint %q is not the URL of a server, such as https://s3.example.com", endpoint)
		}
		return url.URL{Scheme: u.Scheme, Host: strings.TrimSuffix(u.Host, ":"), Path: strings.TrimSuffix(u.Path, "/") + "/" + bucket + "/"}, nil
	}
	if !isRegion(region) {
		return url.URL{}, fmt.Errorf("%q is not the name of a region", region)
	}
	host := "s3." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	if strings.Contains(bucket, ".") {
		return url.URL{Scheme: "https", Host: host, Path: "/" + bucket + "/"}, nil
	}
	return url.URL{Scheme: "https", Host: bucket + "." + host, Path: "/"}, nil
}

func isRegion(name string) bool {
	return len(name) < 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Close closes the connections that nobody uses.
func (b *Bucket) Close() { b.client.CloseIdleConnections() }

// Get implements Store.
func (b *Bucket) Get(ctx context.Context, key string) (*Stored, error) {
	r, err := b.request(ctx, http.MethodGet, key)
	if err != nil {
		return nil, err
	}
	answer, err := b.send(r, noContent) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, b.refusal(answer)
	}
	return &Stored{Body: answer.Body, Size: answer.ContentLength, ETag: answer.Header.Get("Etag")}, nil
}

// Put implements Store. The hash of the content is signed, so the server refuses what was damaged on its way.
func (b *Bucket) Put(ctx context.Context, key string, c Content, condition Condition) error {
	if err := condition.Check(); err != nil {
		return err
	}
	r, err := b.request(ctx, http.MethodPut, key)
	if err != nil {
		return err
	}
	body, err := c.attach(r)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if condition.IfMatch != "" {
		r.Header.Set("If-Match", condition.IfMatch)
	}
	if condition.IfAbsent {
		r.Header.Set("If-None-Match", "*")
	}
	answer, err := b.send(r, c.SHA256)
	if err != nil {
		return err
	}
	switch {
	case answer.StatusCode == http.StatusOK:
	case answer.StatusCode/100 == 2: // no refusal, and nothing that S3 says
		_ = answer.Body.Close()
		return &refusalError{status: answer.StatusCode, Message: notS3}
	default:
		return conditional(b.refusal(answer), condition)
	}
	rest(answer)
	return nil
}

// Delete implements Store.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	r, err := b.request(ctx, http.MethodDelete, key)
	if err != nil {
		return err
	}
	answer, err := b.send(r, noContent)
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return b.refusal(answer)
	}
	return answer.Body.Close()
}

// noContent is the hash of a request without a body.
var noContent = sha256.Sum256(nil) // read only

func (b *Bucket) request(ctx context.Context, method, key string) (*http.Request, error) {
	u := b.root
	u.Path += key
	u.RawPath = escapePath(u.Path)
	return http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
}

// send signs and sends a request.
func (b *Bucket) send(r *http.Request, hash [32]byte) (*http.Response, error) {
	sum := hex.EncodeToString(hash[:])
	r.Header.Set("User-Agent", "leaderrun")
	r.Header.Set("X-Amz-Content-Sha256", sum)
	if err := b.signer.SignHTTP(r.Context(), b.keys, r, sum, "s3", b.region, time.Now()); err != nil {
		return nil, err
	}
	answer, err := b.client.Do(r)
	if err != nil {
		return nil, transportError(err)
	}
	return answer, nil
}

// escapePath writes a path as S3 signs it: everything but letters, digits and -._~/ as bytes.
func escapePath(path string) string {
	var e strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			e.WriteByte(c)
		default:
			fmt.Fprintf(&e, "%%%02X", c)
		}
	}
	return e.String()
}

// dialer makes connections that break when nothing moves on them.
func dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connecting)
		defer cancel()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &restless{Conn: c, silence: silence}, nil
	}
}

// restless is a connection whose reads and writes fail when neither moved anything for a time. An answer is waited for while a large
// object is being sent, so each counts for both.
type restless struct {
	net.Conn
	silence time.Duration
}

func (c *restless) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *restless) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
