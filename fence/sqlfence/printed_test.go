package sqlfence_test

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/fence/sqlfence"
)

// example returns the n-th script of the printed comments.
func (b *bed) example(t testing.TB, n int, replace ...string) string {
	t.Helper()
	return b.exampleOf(t, "", n, replace...)
}

// exampleOf is example for a resource.
func (b *bed) exampleOf(t testing.TB, resource string, n int, replace ...string) string {
	t.Helper()
	var all []string
	for paragraph := range strings.SplitSeq(sqlfence.Schema(b.dialect, resource), "\n--\n") {
		if strings.HasPrefix(paragraph, "--   ") {
			all = append(all, strings.ReplaceAll("\n"+paragraph, "\n--   ", "\n")+"\n")
		}
	}
	if len(all) != 2 {
		t.Fatalf("there are %d examples", len(all))
	}
	script := strings.NewReplacer("DATABASE", "test", "FILE", "test").Replace(all[n])
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(script, replace[i]) {
			t.Fatalf("the example has no %q: %s", replace[i], script)
		}
		script = strings.ReplaceAll(script, replace[i], replace[i+1])
	}
	return script
}

// wantEnd runs a script that must end with this code; -1: with another one than 0. It says nothing where all is well.
func (b *bed) wantEnd(t *testing.T, script string, code int, says string, env ...string) {
	t.Helper()
	got, said := b.run(t, script, env...)
	switch {
	case code >= 0 && got != code, code < 0 && got == 0:
		t.Errorf("%v: exit code %d: %s", env, got, said)
	case code == 0 && said != "" && says == "", !strings.Contains(said, says):
		t.Errorf("%v: it says %q", env, said)
	}
}

func (b *bed) printedFence(t *testing.T) {
	t.Helper()
	balance := b.account(t, 7)
	script := b.example(t, 0)
	b.wantEnd(t, script, 0, "", token(42))
	b.wantEnd(t, script, 0, "", token(42))
	b.wantEnd(t, script, -1, "is stale", token(41))
	for _, wrong := range []string{"LEADERRUN_TOKEN=", "LEADERRUN_TOKEN=x", "LEADERRUN_TOKEN=0", "LEADERRUN_TOKEN=-1"} {
		b.wantEnd(t, script, -1, "", wrong)
	}
	// Whoever let this one in would let nobody in after it.
	b.wantEnd(t, script, -1, "ahead of the clock", "LEADERRUN_TOKEN=9223372036854775807")
	if _, err := b.resource(t, b.open(t, nil), "invoices").Raise(t.Context(), fence.Run{Token: 42}); err != nil {
		t.Error(err)
	}
	if got := balance(); got != 800 {
		t.Errorf("the balance is %d", got)
	}
}

func (b *bed) printedOnce(t *testing.T) {
	t.Helper()
	balance := b.account(t, 8)
	script := b.example(t, 1, "id = 7", "id = 8", "'invoices'", "'other invoices'")
	b.wantEnd(t, script, 0, "", token(42), "LEADERRUN_TICK="+tick)
	b.wantEnd(t, script, 0, "", token(42), "LEADERRUN_TICK="+tick)
	b.wantEnd(t, script, 0, "", token(43), "LEADERRUN_TICK="+tick)
	if got := balance(); got != 900 {
		t.Errorf("the balance is %d", got)
	}
	b.wantEnd(t, script, -1, "is stale", token(42), "LEADERRUN_TICK="+tick)
	b.wantEnd(t, script, -1, "is stale", token(42), "LEADERRUN_TICK=2026-01-06T02:00:00Z")
	b.wantEnd(t, script, -1, "", token(43), "LEADERRUN_TICK=")
	b.wantEnd(t, script, -1, "", token(43))
	if got := balance(); got != 900 {
		t.Errorf("a stale run pays: the balance is %d", got)
	}
	b.wantEnd(t, script, 0, "", token(43), "LEADERRUN_TICK=2026-01-06T02:00:00Z")
	if got := balance(); got != 800 {
		t.Errorf("the balance is %d", got)
	}
}

// printedResource: a name is the same one in a script and in the package, and stays a name.
func (b *bed) printedResource(t *testing.T) {
	t.Helper()
	balance := b.account(t, 11)
	db := b.open(t, nil)
	for i, name := range []string{"Bücher ‘20%’", "bob's books", `C:\`, `\'; UPDATE account SET balance = 0; -- `, `\\'; DELETE FROM account; -- `} {
		script := b.exampleOf(t, name, 0, "id = 7", "id = 11")
		// The client's encoding, and what a backslash is to the server, are somebody else's choice.
		b.wantEnd(t, script, 0, "", token(42), "PGCLIENTENCODING=LATIN1", "PGOPTIONS=-c standard_conforming_strings=off")
		if _, err := b.resource(t, db, name).Raise(t.Context(), fence.Run{Token: 41}); err == nil {
			t.Errorf("%q: the script means another resource", name)
		}
		if got := balance(); got != 900-100*i {
			t.Errorf("%q: the balance is %d", name, got)
		}
	}
}

// printedJob: what is done once has the same name in a script and in the package, and stays a name.
func (b *bed) printedJob(t *testing.T) {
	t.Helper()
	balance := b.account(t, 12)
	db := b.open(t, nil)
	script := b.example(t, 1, "id = 7", "id = 12", "'invoices'", "'jobs'")
	for i, name := range []string{"Bücher", "bob's", `\'; UPDATE account SET balance = 0; -- `, "$(exit 1)`exit 1`\"\"", "-e", "a:b"} {
		for _, run := range []fence.Run{{Token: 42, Job: name, Tick: tick}, {Token: 42, Job: "job", Once: name}} {
			b.wantEnd(t, script, 0, "", token(42), "LEADERRUN_JOB="+run.Job, "LEADERRUN_TICK="+run.Trigger())
			if first, err := b.raised(t, db, "jobs", run).Once(t.Context(), b.pay(12)); first || err != nil {
				t.Errorf("%q is not what the script has done: %v, %v", name, first, err)
			}
		}
		if got := balance(); got != 800-200*i {
			t.Errorf("%q: the balance is %d", name, got)
		}
	}
	b.wantEnd(t, script, -1, "", token(42), "LEADERRUN_JOB=", "LEADERRUN_TICK="+tick)

	// Two effects of one run, the second with a name of its own.
	effect := strings.ReplaceAll(script, "$LEADERRUN_JOB", "$LEADERRUN_JOB/effect")
	before := balance()
	for _, s := range []string{script, effect, script, effect} {
		b.wantEnd(t, s, 0, "", token(42), "LEADERRUN_JOB=two", "LEADERRUN_TICK="+tick)
	}
	if got := before - balance(); got != 200 {
		t.Errorf("two effects of one run are %d less", got)
	}
}

// idle: a client stands still within its transaction until the server has ended that; what it sends then is not written.
func (b *bed) idle(t *testing.T, printed, short, ended, says string) {
	t.Helper()
	balance := b.account(t, 15)
	still := "cat >still <<'STILL'\nfor n in $(seq 300); do if " + ended + "; then break; fi; sleep 0.1; done\nSTILL\n"
	b.wantEnd(t, still+b.example(t, 0, printed, short, "id = 7;", "id = 15;\n\\! sh still"), -1, says, token(43))
	if got := balance(); got != 1000 {
		t.Errorf("the balance is %d", got)
	}
	if err := b.raised(t, b.open(t, nil), "invoices", fence.Run{Token: 44}).Tx(t.Context(), nil, b.pay(15)); err != nil {
		t.Error(err)
	}
}
