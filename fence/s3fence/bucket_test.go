package s3fence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/s3fence"
)

// What the server says, and what becomes of it: something that a retry may mend, or that somebody has to change.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const configuration, credentials = fence.Configuration, fence.Credentials
	for _, c := range []struct {
		status     int
		code, more string
		kind       fence.SetupKind // 0: none
		is         error
		hint       string
	}{
		{403, "AccessDenied", "", credentials, nil, "s3:ListBucket"},
		{403, "InvalidAccessKeyId", "", credentials, nil, "AWS_ACCESS_KEY_ID"},
		{403, "SignatureDoesNotMatch", "", credentials, nil, "AWS_ACCESS_KEY_ID"},
		{400, "ExpiredToken", "", credentials, nil, "export-credentials"},
		{403, "SomethingNew", "", credentials, nil, ""},
		{403, "RequestTimeTooSkewed", "", configuration, nil, "set the clock"},
		{404, "NoSuchBucket", "", configuration, nil, "make the bucket b first"},
		{301, "PermanentRedirect", "<Region>eu-west-1</Region>", configuration, nil, "--region eu-west-1"},
		{400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>", configuration, nil, "--region eu-west-1"},
		{501, "NotImplemented", "", configuration, nil, "conditional writes"},
		{501, "", "", configuration, nil, "conditional writes"},
		{400, "KeyTooLongError", "", configuration, nil, ""},
		{404, "NoSuchKey", "", 0, s3fence.ErrNotFound, ""},
		{412, "PreconditionFailed", "", 0, s3fence.ErrCondition, ""},
		{409, "ConditionalRequestConflict", "", 0, s3fence.ErrConflict, ""},
		{503, "SlowDown", "", 0, nil, ""},
		{500, "InternalError", "", 0, nil, ""},
		{400, "RequestTimeout", "", 0, nil, ""},
		{412, "", "", 0, s3fence.ErrCondition, ""},
		{502, "", "", 0, nil, ""},
		{404, "", "", configuration, nil, "correct the endpoint"},
		{307, "", "", configuration, nil, "correct the endpoint"},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://elsewhere.example.com/")
				w.WriteHeader(c.status)
				if c.code != "" {
					_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>words</Message>%s</Error>", c.code, c.more)
				}
			}))
			defer server.Close()
			b, err := s3fence.NewBucket(s3fence.Config{Name: "b", Endpoint: server.URL, Keys: s3fence.Keys{Access: "a", Secret: "secret"}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			_, err = b.Get(t.Context(), "k")
			setup, isSetup := errors.AsType[*fence.SetupError](err)
			switch {
			case err == nil, isSetup != (c.kind != 0), c.is != nil && !errors.Is(err, c.is):
				t.Errorf("got %v", err)
			case isSetup && (setup.Kind != c.kind || !strings.Contains(setup.Hint, c.hint)):
				t.Errorf("got %v of kind %d with the hint %q", err, setup.Kind, setup.Hint)
			case strings.Contains(err.Error()+fmt.Sprintf("%+v", setup), "secret"):
				t.Errorf("a secret is told: %v", err)
			}
		})
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.User(t, "READER", "reader-secret")
	s.API(t, "PUT", "/bucket?policy", `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["READER"]},
		"Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]}]}`)
	write(t, raise(t, &s3fence.Object{Store: bucketOf(t, s), Key: "k"}, 1), "x")
	for name, keys := range map[string]s3fence.Keys{
		"nobody": {Access: "NOBODY", Secret: "secret"}, "wrong secret": {Access: "READER", Secret: "wrong"},
		"read only": {Access: "READER", Secret: "reader-secret"},
	} {
		b := bucketOf(t, s, func(c *s3fence.Config) { c.Keys = keys })
		o := &s3fence.Object{Store: b, Key: "k"}
		_, err := o.Raise(t.Context(), run(2))
		wantSetup(t, err, fence.Credentials, "403")
		if name == "read only" && read(t, o) != "x" {
			t.Error("it cannot be read")
		}
	}
	if _, err := s3fence.NewBucket(s3fence.Config{Name: "bucket", Endpoint: "localhost:9000"}); err == nil {
		t.Error("an endpoint without a scheme is taken")
	}
	nowhere := bucketOf(t, s, func(c *s3fence.Config) { c.Name = "another" })
	_, err := (&s3fence.Object{Store: nowhere, Key: "k"}).Raise(t.Context(), run(1))
	wantSetup(t, err, fence.Configuration, "NoSuchBucket")
}

// Amazon's hosts are not asked in a test: only whom the client would connect to, and for what.
func TestHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bucket, region, endpoint, addr, path string }{
		{"b", "", "", "b.s3.us-east-1.amazonaws.com:443", ""},
		{"b", "eu-west-1", "", "b.s3.eu-west-1.amazonaws.com:443", ""},
		{"b", "cn-north-1", "", "b.s3.cn-north-1.amazonaws.com.cn:443", ""},
		{"b.example.com", "eu-west-1", "", "s3.eu-west-1.amazonaws.com:443", ""},
		{"b", "", "http://s3.example.com:9000", "s3.example.com:9000", "/b/dir/a%20%2B%25"},
		{"b", "", "http://example.com/s3/", "example.com:80", "/s3/b/dir/a%20%2B%25"},
	} {
		asked, path := "", ""
		b, err := s3fence.NewBucket(s3fence.Config{
			Name: c.bucket, Region: c.region, Endpoint: c.endpoint, Keys: s3fence.Keys{Access: "a", Secret: "s", Session: "t"},
			Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
				asked = addr
				if c.endpoint == "" {
					return nil, errLost
				}
				here, there := net.Pipe()
				go func() {
					line := make([]byte, 200)
					n, _ := there.Read(line)
					path = strings.Fields(string(line[:n]))[1]
					_ = there.Close()
				}()
				return here, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(t.Context(), "dir/a +%"); err == nil || asked != c.addr || c.path != "" && path != c.path {
			t.Errorf("%+v: asked %s for %s: %v", c, asked, path, err)
		}
		b.Close()
	}
	for _, c := range []s3fence.Config{
		{Name: ""},
		{Name: "."},
		{Name: ".."},
		{Name: "a/b"},
		{Name: "b", Region: "x.evil.example.com/"},
		{Name: "b", Endpoint: "ftp://x"},
		{Name: "b", Endpoint: "https://"},
		{Name: "b", Endpoint: "http://:9000"},
		{Name: "b", Endpoint: "https://user:secret@example.com"},
		{Name: "b", Endpoint: "user:secret@example.com"},
		{Name: "b", Endpoint: "//user:secret@example.com"},
		{Name: "b", Endpoint: "https://user:secret@example.com:port"},
		{Name: "b", Endpoint: "https://user:sec%ret@example.com"},
		{Name: "b", Endpoint: "https://user:secret%@example.com"},
		{Name: "b", Endpoint: "https://example.com/?key=secret"},
	} {
		if _, err := s3fence.NewBucket(c); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A server that takes a large object slowly is waited for; one that says nothing any more is not.
func TestSilence(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for name, falls := range map[string]bool{"slow": false, "silent": true} {
		synctest.Test(t, func(t *testing.T) {
			b, err := s3fence.NewBucket(s3fence.Config{
				Name: "b", Endpoint: "http://s3.example.com",
				Dial: func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					go func() {
						for taken := 0; taken < size; { // one piece in half a minute
							time.Sleep(30 * time.Second)
							n, err := there.Read(make([]byte, 1<<16))
							if err != nil || falls && taken > size/2 {
								return
							}
							taken += n
						}
						_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n")
					}()
					return here, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			data := make([]byte, size)
			c := s3fence.Content{Body: bytes.NewReader(data), Size: int64(len(data))}
			err = b.Put(t.Context(), "k", c, s3fence.Condition{Always: true})
			took := time.Since(begin)
			if falls == (err == nil) || took < 5*time.Minute || took > 20*time.Minute {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
			b.Close()
			synctest.Wait()
		})
	}
}

func TestKeysFrom(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, ".aws", "credentials")
	const text = "# comment\n[default]\naws_access_key_id = D\naws_secret_access_key=DS\n\n[ other ]\nAWS_ACCESS_KEY_ID=O\n" +
		"aws_secret_access_key = O=S\naws_session_token = OT\n[sso]\nsso_session = x\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  map[string]string
		want s3fence.Keys
		why  string // "": keys are found
	}{
		{
			map[string]string{"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S", "AWS_SESSION_TOKEN": "T"},
			s3fence.Keys{Access: "A", Secret: "S", Session: "T"},
			"",
		},
		{map[string]string{"AWS_ACCESS_KEY_ID": "A"}, s3fence.Keys{}, "only one is set"},
		{map[string]string{"HOME": "/nowhere"}, s3fence.Keys{}, "AWS_ACCESS_KEY_ID is not set, and there is no file /nowhere/.aws/credentials"},
		{map[string]string{"HOME": home}, s3fence.Keys{Access: "D", Secret: "DS"}, ""},
		{map[string]string{"HOME": home, "AWS_PROFILE": "other"}, s3fence.Keys{Access: "O", Secret: "O=S", Session: "OT"}, ""},
		{map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file}, s3fence.Keys{Access: "D", Secret: "DS"}, ""},
		{map[string]string{"HOME": home, "AWS_PROFILE": "sso"}, s3fence.Keys{}, `the profile "sso"`},
		{map[string]string{"HOME": home, "AWS_PROFILE": "none"}, s3fence.Keys{}, `the profile "none"`},
	} {
		got, err := s3fence.KeysFrom(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if c.why != "" {
			wantSetup(t, err, fence.Credentials, c.why)
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%v: got %+v and %v", c.env, got, err)
		}
	}
}

// A credentials file is no reason to wait for ever, nor to read without end.
func TestKeysFileThatIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, bytes.Repeat([]byte("[default]\n"), 1<<17), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{pipe: `the profile "default"`, large: "larger than 1 MB", "/dev/zero": "larger than 1 MB"} {
		wantSetup(t, keysIn(path), fence.Credentials, why)
	}
}

func keysIn(file string) error {
	env := map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file}
	_, err := s3fence.KeysFrom(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	return err
}

// Whoever can write the file decides whose account is written to.
func TestKeysFileOfOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials")
	const text = "[default]\naws_access_key_id=A\naws_secret_access_key=S\n"
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, 0o666)); err != nil {
		t.Fatal(err)
	}
	wantSetup(t, keysIn(file), fence.Configuration, "can be written by others (mode 0666)")
}

// Without a home no keys are read from the working directory, where somebody else's may lie.
func TestKeysWithoutAHome(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir(".aws", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(".aws/credentials", []byte("[default]\naws_access_key_id=A\naws_secret_access_key=S\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s3fence.KeysFrom(func(string) (string, bool) { return "", false })
	wantSetup(t, err, fence.Credentials, "neither AWS_ACCESS_KEY_ID nor HOME is set")
}
