package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/test/servers"
)

// s3s are the servers of all scripts, by endpoint.
var s3s sync.Map

// s3 BUCKET [tls] starts a server with a bucket, and sets what a client needs. s3 user NAME SECRET makes a user. s3 METHOD PATH [FILE] sends
// a request, with a file as its body, and its answer is stdout. s3 lenient sets LENIENT to a server in front of it that drops
// If-Match, and signs anew.
func askS3(t *testing.T, ts *testscript.TestScript, args []string) {
	t.Helper()
	if tls := len(args) == 2 && args[1] == "tls"; tls || len(args) == 1 && args[0] != "lenient" {
		var o servers.S3Options
		if tls {
			o.TLS = servers.NewCertificates(t)
			ts.Setenv("CA", o.TLS.CA)
		}
		s := servers.S3(t, o)
		s.API(t, "PUT", "/"+args[0], "")
		s3s.Store(s.Endpoint(), s)
		ts.Setenv("AWS_ENDPOINT_URL", s.Endpoint())
		ts.Setenv("AWS_ACCESS_KEY_ID", servers.S3AccessKey)
		ts.Setenv("AWS_SECRET_ACCESS_KEY", servers.S3SecretKey)
		return
	}
	known, _ := s3s.Load(ts.Getenv("AWS_ENDPOINT_URL"))
	s, ok := known.(*servers.S3Server)
	switch {
	case !ok:
		ts.Fatalf("no server")
	case args[0] == "lenient":
		ts.Setenv("LENIENT", lenient(t, s))
	case args[0] == "user":
		s.User(t, args[1], args[2])
	default:
		body := ""
		if len(args) > 2 {
			body = ts.ReadFile(args[2])
		}
		text, err := s.TryAPI(args[0], args[1], body)
		ts.Check(err)
		_, err = io.WriteString(ts.Stdout(), text)
		ts.Check(err)
	}
}

func lenient(t *testing.T, s *servers.S3Server) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		answer, err := s.Ask(t.Context(), r.Method, r.URL.EscapedPath(), string(body), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		w.Header().Set("ETag", answer.Header.Get("ETag"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
