package value

import (
	"strings"
	"testing"
)

func TestOneOf(t *testing.T) {
	type color string
	read := OneOf[color]("red", "blue")
	if got, err := read("blue"); got != "blue" || err != nil {
		t.Errorf("blue: %q, %v", got, err)
	}
	if got, err := read("Red"); got != "" || err == nil || err.Error() != `"Red" is none of red, blue` {
		t.Errorf("Red: %q, %v", got, err)
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "10": 10, "07": 7, "+3": 3} {
		if got, err := Number(1, 10)(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "11", "-1", "1.5", " 1", "99999999999999999999"} {
		if got, err := Number(1, 10)(text); got != 0 || err == nil || !strings.HasSuffix(err.Error(), " is not a whole number from 1 to 10") {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	if _, err := Number(2, Unbounded)("3000000000"); err == nil || err.Error() != `"3000000000" is not a whole number of at least 2` {
		t.Errorf("too large: %v", err)
	}
}

func TestNotName(t *testing.T) {
	for text, want := range map[string]string{
		"nightly report": "", strings.Repeat("x", LongestName): "",
		"": "is empty", "\xff": "is not valid UTF-8", "a\x00b": "contains a zero byte", strings.Repeat("x", LongestName+1): "is longer than 255 bytes",
	} {
		if got := NotName(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestIsVariable(t *testing.T) {
	for name, want := range map[string]bool{"A": true, "_a9": true, "": false, "9a": false, "a-b": false, "ä": false, "A B": false} {
		if IsVariable(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
