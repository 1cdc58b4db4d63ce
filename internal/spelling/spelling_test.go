package spelling

import "testing"

func TestClosest(t *testing.T) {
	words := []string{"command", "timeout", "timezone", "start_deadline", "ttl", "retry_delay", "retries"}
	for typed, want := range map[string]string{
		"comand": "command", "Command": "command", "timeuot": "timeout", "timezon": "timezone", "tll": "ttl",
		"start": "start_deadline", "start-deadline": "start_deadline",
		"cmd": "command", "retry": "retries",
		"": "", "x": "", "completely else": "",
	} {
		if got := Closest(typed, words); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	if got := Closest("ttl", nil); got != "" {
		t.Errorf("of nothing: got %q", got)
	}
}
