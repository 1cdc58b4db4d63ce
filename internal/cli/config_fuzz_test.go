package cli

import (
	"errors"
	"testing"
)

// No text panics. What is taken is right for its option, and what is refused is refused as configuration, in one line.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "backend: \"file:\"\n", "backend: file:\n", "ttl: 15s\nretries: 3\n", "on_lost: rerun\non_lost: skip\n", "--- \n---\n", "- a\n",
		"kill-after: 1s\n", "force: true\n", "exit_on_skip: [1, 2]\n", "a: &a [*a]\n", "? {a: b}\n: c\n", "ttl: !!int 5\n", "\xff", "null\n", "{}",
		"a: &x [1,1]\nb: &y [*x,*x]\nc: [*y,*y]\n",
	} {
		f.Add([]byte(text))
	}
	known := AllOptions()
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := ParseConfig("f.yaml", text, known)
		if err == nil {
			for key, v := range values {
				if v.Origin != FromFile || v.Place == "" {
					t.Errorf("%s: %+v", key, v)
				}
			}
			return
		}
		wrong, ok := errors.AsType[*Fault](err)
		if !ok || wrong.Code != CodeConfiguration || values != nil {
			t.Errorf("%v: %+v", err, values)
		}
	})
}
