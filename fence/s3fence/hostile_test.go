package s3fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/fence"
)

// writeForEver writes the same until nobody takes it, with a pause after each; 0: none.
func writeForEver(w io.Writer, text string, pause time.Duration) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// A server that never comes to an end takes neither the run's time for ever nor the host's memory.
func TestServerThatNeverEnds(t *testing.T) {
	const begin, xml = "HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n", "<?xml version=\"1.0\"?>"
	for name, answer := range map[string]func(net.Conn){
		"another protocol, and silence": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			writeForEver(c, "x", 50*time.Second)
		},
		"a refusal bit by bit": func(c net.Conn) {
			_, _ = fmt.Fprintf(c, begin, "403 Forbidden")
			writeForEver(c, "1\r\nx\r\n", 50*time.Second)
		},
		"a success bit by bit": func(c net.Conn) {
			_, _ = fmt.Fprintf(c, begin, "200 OK")
			writeForEver(c, "1\r\nx\r\n", 50*time.Second)
		},
		"a refusal without end": func(c net.Conn) {
			_, _ = fmt.Fprintf(c, begin+"%x\r\n%s\r\n", "403 Forbidden", len(xml), xml)
			writeForEver(c, "3e8\r\n"+strings.Repeat("<a b='c'>", 1000)[:1000]+"\r\n", 0)
		},
		"headers without end": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			writeForEver(c, "X-Header: a\r\n", 0)
		},
		"headers bit by bit": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			writeForEver(c, "x", 50*time.Second)
		},
		"promises without end": func(c net.Conn) { writeForEver(c, "HTTP/1.1 100 Continue\r\n\r\n", 0) },
		"progress for ever":    func(c net.Conn) { writeForEver(c, "HTTP/1.1 102 Processing\r\n\r\n", 50*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := NewBucket(Config{
					Name: "b", Endpoint: "http://s3.example.com",
					Dial: func(context.Context, string, string) (net.Conn, error) {
						here, there := net.Pipe()
						go func() {
							defer there.Close()
							buffer := make([]byte, 1<<10)
							for request := ""; !strings.Contains(request, "\r\n\r\n"); {
								n, err := there.Read(buffer)
								if request += string(buffer[:n]); err != nil {
									return
								}
							}
							answer(there)
						}()
						return here, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				begun := time.Now()
				err = b.Put(t.Context(), "k", Content{Body: strings.NewReader("")}, Condition{Always: true})
				runtime.ReadMemStats(&after)
				if took := time.Since(begun); took > 10*time.Minute || (err == nil) != (name == "a success bit by bit") {
					t.Errorf("after %v: %v", took, err)
				}
				if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 16 {
					t.Errorf("it took %d MB", used)
				}
				if err != nil && len(err.Error()) > 1000 {
					t.Errorf("it says %d bytes", len(err.Error()))
				}
				b.Close()
				time.Sleep(10 * time.Minute) // the servers notice
				synctest.Wait()
			})
		})
	}
}

// Data that goes on after its end is not what was written.
func TestDataWithoutEnd(t *testing.T) {
	p := pointer{Data: "k.d/1-x", Size: 3, SHA256: "x"}
	endless := io.NopCloser(io.MultiReader(strings.NewReader("abc"), io.LimitReader(neverEnds{}, 1<<20)))
	var got bytes.Buffer
	err := p.pour(&Stored{Body: endless, Size: -1}, &got)
	if _, ok := errors.AsType[*fence.SetupError](err); !ok || got.Len() > 4 {
		t.Errorf("after %d bytes: %v", got.Len(), err)
	}
}

// A token that no clock gives is refused before the server is asked: it would lock all others out.
func TestTokenOfNoClock(t *testing.T) {
	_, err := (&Object{Key: "k"}).Raise(t.Context(), fence.Run{Token: math.MaxInt64})
	if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Kind != fence.Configuration {
		t.Errorf("got %v", err)
	}
}

type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) { return len(p), nil }

func FuzzPointer(f *testing.F) {
	whole := pointer{
		Format: pointerFormat, Token: 1763640000000, Job: "job", Tick: "2026-01-05T02:00:00Z", Data: "k.d/1-x", Size: 3,
		SHA256: strings.Repeat("0", 64), Previous: "k.d/0-y", Nonce: "n",
	}
	f.Add(whole.encode())
	f.Add([]byte(`{"format":"leaderrun s3 pointer 1","token":1,"nonce":"n","size":0}`))
	f.Add([]byte(`{"format":"leaderrun s3 pointer 1","token":9223372036854775807,"nonce":"n","data":"other.d/x"}`))
	f.Add([]byte(strings.Repeat("[", 20000)))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := decodePointer("k", text)
		if err != nil {
			return
		}
		if p.Token < 1 || p.Size < 0 || p.Nonce == "" || p.Data != "" && !strings.HasPrefix(p.Data, "k.d/") {
			t.Errorf("%+v is taken for a pointer", p)
		}
		if back, err := decodePointer("k", p.encode()); err != nil || back != p {
			t.Errorf("%+v comes back as %+v: %v", p, back, err)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(403, "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>words</Message></Error>", "")
	f.Add(301, "<Error><Code>PermanentRedirect</Code><Region>eu-west-1</Region></Error>", "")
	f.Add(400, "", "$(reboot)")
	f.Add(500, strings.Repeat("<a>", 20000), "")
	f.Add(400, `<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;">]><Error><Code>&y;</Code></Error>`, "")
	b := &Bucket{name: "b", region: "us-east-1"}
	f.Fuzz(func(t *testing.T, status int, text, region string) {
		w := httptest.NewRecorder()
		w.Body.WriteString(text)
		answer := &http.Response{StatusCode: status, Body: w.Result().Body, Header: http.Header{"X-Amz-Bucket-Region": {region}}}
		err := b.refusal(answer)
		if err == nil || len(err.Error()) > 8*saidLimit {
			t.Errorf("%d: %v", status, err)
		}
		if setup, ok := errors.AsType[*fence.SetupError](err); ok {
			if _, typed, found := strings.Cut(setup.Hint, "--region "); found && !isRegion(typed) {
				t.Errorf("it is shown as something to type: %q", typed)
			}
		}
	})
}
