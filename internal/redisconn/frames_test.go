package redisconn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// passed is what frames let through of a text that comes in chunks of a size.
func passed(text string, chunk int) (string, error) {
	var f frames
	var out strings.Builder
	for len(text) > 0 {
		n := min(chunk, len(text))
		ok, err := f.pass([]byte(text[:n]))
		out.WriteString(text[:ok])
		if err != nil {
			return out.String(), err
		}
		text = text[n:]
	}
	return out.String(), nil
}

func nested(open string, levels int) string { return strings.Repeat(open, levels) + ":1\r\n" }

var legal = map[string]string{
	"the simple ones":           "+OK\r\n-ERR no\r\n:1\r\n:-1\r\n_\r\n,1.5\r\n#t\r\n(12345678901234567890\r\n+\r\n",
	"strings":                   "$0\r\n\r\n$5\r\na\r\nbc\r\n!3\r\nERR\r\n=7\r\ntxt:abc\r\n",
	"nulls":                     "$-1\r\n*-1\r\n*2\r\n$-1\r\n*-1\r\n",
	"aggregates":                "*0\r\n*2\r\n:1\r\n*1\r\n+a\r\n~1\r\n:1\r\n>2\r\n+message\r\n+x\r\n%1\r\n+k\r\n*1\r\n:1\r\n%0\r\n",
	"attributes":                "|1\r\n+ttl\r\n:3\r\n+OK\r\n*2\r\n|0\r\n:1\r\n:2\r\n",
	"as many levels as allowed": nested("*1\r\n", maxDepth),
	"a line as long as allowed": "+" + strings.Repeat("a", maxBytes-3) + "\r\n",
	"a string as long":          fmt.Sprintf("$%d\r\n%s\r\n", maxBytes-12, strings.Repeat("a", maxBytes-12)),
	"as many elements":          fmt.Sprintf("*%d\r\n%s", maxElements, strings.Repeat(":1\r\n", maxElements)),
	"each is counted by itself": strings.Repeat(fmt.Sprintf("*%d\r\n%s", maxElements/2, strings.Repeat(":1\r\n", maxElements/2)), 5),
}

func TestLegalRepliesPass(t *testing.T) {
	t.Parallel()
	for name, text := range legal {
		for _, chunk := range []int{1, 7, 4096, len(text)} {
			if got, err := passed(text, chunk); err != nil || got != text {
				t.Errorf("%s, in chunks of %d: %d of %d bytes, %v", name, chunk, len(got), len(text), err)
			}
		}
	}
}

// fragments is the answer of a Cluster of three nodes for each of its slots, which all have a host name.
func fragments() string {
	var b strings.Builder
	b.WriteString("*16384\r\n")
	for i := range 16384 {
		fmt.Fprintf(&b, "*5\r\n:%d\r\n:%d\r\n", i, i)
		for range 3 {
			fmt.Fprintf(&b, "*4\r\n$15\r\n100.100.100.100\r\n:10000\r\n$40\r\n%040d\r\n*2\r\n$8\r\nhostname\r\n$30\r\n%030d\r\n", i, i)
		}
	}
	return b.String()
}

// Hazard: a Cluster is refused for having many slots, or takes more memory than one has.
func TestSlotsOfACluster(t *testing.T) {
	t.Parallel()
	text := fragments()
	if _, err := passed(text, 4096); !errors.Is(err, ErrRefused) {
		t.Errorf("who asks for no slots: %v", err)
	}
	f := frames{cluster: true}
	for range 2 {
		if n, err := f.pass([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("%d of %d bytes, %v", n, len(text), err)
		}
	}
	for name, text := range map[string]string{
		"more elements":        fmt.Sprintf("*%d\r\n", clusterElements+1),
		"more bytes":           "*100\r\n" + strings.Repeat(fmt.Sprintf("$1000000\r\n%01000000d\r\n", 0), 9),
		"more bytes of a line": "+" + strings.Repeat("a", maxBytes),
		"a longer string":      fmt.Sprintf("$%d\r\n", maxBytes),
		"an endless string":    "$9223372036854775807\r\n",
	} {
		f := frames{cluster: true}
		if _, err := f.pass([]byte(text)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hostile are replies that must not reach the library, and the last bytes that may; "…" is whatever was before.
var hostile = map[string]struct{ text, passes string }{
	"a string of all memory":         {"$9223372036854775807\r\n", "$9223372036854775807\r"},
	"a string of a TB":               {"$1099511627776\r\n", "$1099511627776\r"},
	"a string beyond the limit":      {fmt.Sprintf("$%d\r\n", maxBytes), fmt.Sprintf("$%d\r", maxBytes)},
	"an error of a GB":               {"!1073741824\r\n", "!1073741824\r"},
	"a verbatim string of a GB":      {"=1073741824\r\n", "=1073741824\r"},
	"an array of all memory":         {"*2147483647\r\n", "*2147483647\r"},
	"a set":                          {"~2147483647\r\n", "~2147483647\r"},
	"a push":                         {">2147483647\r\n", ">2147483647\r"},
	"a map":                          {"%200000000\r\n", "%200000000\r"},
	"a map whose double overflows":   {"%4611686018427387905\r\n", "%4611686018427387905\r"},
	"an attribute":                   {"|200000000\r\n", "|200000000\r"},
	"one element too many":           {fmt.Sprintf("*%d\r\n", maxElements+1), fmt.Sprintf("*%d\r", maxElements+1)},
	"a map of as many":               {fmt.Sprintf("%%%d\r\n", maxElements/2+1), fmt.Sprintf("%%%d\r", maxElements/2+1)},
	"a length that overflows":        {"$18446744073709551617\r\n", "$18446744073709551617\r"},
	"a negative length":              {"$-2\r\n", "$-2\r"},
	"a null that is no null":         {"%-1\r\n", "%-1\r"},
	"a null attribute":               {"|-1\r\n", "|-1\r"},
	"a length that is no number":     {"$abc\r\n", "$"},
	"a length with a sign":           {"*+1\r\n", "*"},
	"no length":                      {"*\r\n", "*\r"},
	"a stream of strings":            {"$?\r\n", "$"},
	"a stream of elements":           {"*?\r\n", "*"},
	"a line that ends by LF":         {"+OK\n", "+OK"},
	"a string that does not end":     {"$1\r\nabc", "$1\r\na"},
	"too many levels":                {nested("*1\r\n", maxDepth+1), strings.Repeat("*1\r\n", maxDepth) + "*1\r"},
	"too many levels of maps":        {nested("%1\r\n+a\r\n", maxDepth+1), strings.Repeat("%1\r\n+a\r\n", maxDepth) + "%1\r"},
	"attribute after attribute":      {strings.Repeat("|0\r\n", maxDepth+1), strings.Repeat("|0\r\n", maxDepth) + "|0\r"},
	"an endless line":                {"+" + strings.Repeat("a", maxBytes), "+" + strings.Repeat("a", maxBytes-1)},
	"an endless error":               {"-" + strings.Repeat("a", maxBytes), "-" + strings.Repeat("a", maxBytes-1)},
	"an endless number":              {"(" + strings.Repeat("1", maxBytes), "(" + strings.Repeat("1", maxNumber-1)},
	"an endless fraction":            {"," + strings.Repeat("1", maxBytes), "," + strings.Repeat("1", maxNumber-1)},
	"an endless length":              {"$" + strings.Repeat("0", 2*maxBytes), "$" + strings.Repeat("0", maxBytes-1)},
	"another protocol":               {"HTTP/1.1 400 Bad Request\r\nmore", "HTTP/1.1 400 Bad Request\r\n"},
	"an endless line of another":     {strings.Repeat("a", maxBytes), strings.Repeat("a", maxStranger+1)},
	"small maps":                     {"*100000\r\n%1\r\n", "*100000\r\n%1\r"},
	"empty maps":                     {"*99990\r\n%0\r\n", "*99990\r\n%0\r"},
	"many strings":                   {"*100\r\n" + strings.Repeat("$60000\r\n"+strings.Repeat("a", 60000)+"\r\n", 100), "…$60000\r"},
	"elements of several aggregates": {"*3\r\n*90000\r\n" + strings.Repeat(":1\r\n", 90000) + "*90000\r\n", "…*90000\r"},
}

func TestHostileRepliesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range hostile {
		for _, chunk := range []int{1, 7, 4096, len(c.text)} {
			got, err := passed(c.text, chunk)
			end, anywhere := strings.CutPrefix(c.passes, "…")
			if !errors.Is(err, ErrRefused) || !strings.HasPrefix(c.text, got) || !strings.HasSuffix(got, end) || !anywhere && got != end {
				t.Errorf("%s, in chunks of %d: %.60q … of %d bytes, want %.60q of %d; %v", name, chunk, got, len(got), end, len(end), err)
			}
			if anywhere && len(got) > maxBytes {
				t.Errorf("%s: %d bytes", name, len(got))
			}
		}
	}
}
