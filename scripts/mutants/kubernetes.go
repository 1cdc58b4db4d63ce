package main

var (
	kubernetesTests = []string{"./backends/kubernetes/..."}
	pluginTests     = []string{"./internal/credentialplugin"}
)

// kubernetesMutants break the rules of the driver kubernetes.
var kubernetesMutants = []mutant{
	{"Kubernetes: no compare of the version", "backends/kubernetes/swap.go", "\tkept, err := send(ctx, l)\n", "\tif now, err := t.read(ctx, t.q.Job); err == nil && now.lease != nil && old.lease != nil {\n\t\tl.ResourceVersion = now.lease.ResourceVersion\n\t}\n\tkept, err := send(ctx, l)\n", kubernetesTests},
	{"Kubernetes: a Lease that was deleted is made anew by a renewal", "backends/kubernetes/swap.go", "l = s.lease.Clone()\n", "l = s.lease.Clone()\n\t\tl.UID = \"\"\n", kubernetesTests},
	{"Kubernetes: a vanished lease is taken for a released one", "backends/kubernetes/read.go", "Proof: backends.ByBeat}", "Proof: backends.ByRelease}", kubernetesTests},
	{"Kubernetes: the beat is the record's", "backends/kubernetes/read.go", "s.record.Beat = s.version\n", "", kubernetesTests},
	{"Kubernetes: a renewal is no beat", "backends/kubernetes/swap.go", "if !w.Beat && s.lease != nil {", "if (w.Lease != nil || !w.Beat) && s.lease != nil {", kubernetesTests},
	{"Kubernetes: a note is a beat", "backends/kubernetes/swap.go", "if !w.Beat && s.lease != nil {", "if s.lease == nil && !w.Beat {", kubernetesTests},
	{"Kubernetes: another program's Lease is taken", "backends/kubernetes/read.go", "\tif !ok {\n", "\tif !ok {\n\t\treturn s, nil\n\t}\n\tif !ok {\n", kubernetesTests},
	{"Kubernetes: another prefix's Lease is taken", "backends/kubernetes/read.go", "s.record.Job != job || prefix != c.prefix {", "s.record.Job != job && prefix == \"\" {", kubernetesTests},
	{"Kubernetes: a holder that an operator took out keeps its lease", "backends/kubernetes/read.go", " && s.lease.Spec.HolderIdentity == identity(s.record.Holder)", "", kubernetesTests},
	{"Kubernetes: a holder goes by the clocks", "backends/kubernetes/read.go", "case asks == s.record.Holder.ID:\n", "case asks == s.record.Holder.ID:\n\t\tleft = byClock\n", kubernetesTests},
	{"Kubernetes: a beat that was seen is no sign of life", "backends/kubernetes/read.go", "s.lives: // there was a beat meanwhile\n", "s.lives: // there was a beat meanwhile\n\t\tleft = byClock\n", kubernetesTests},
	{"Kubernetes: a released Lease shows its holder", "backends/kubernetes/swap.go", "if w.Release || w.Record.Free() {", "if false {", kubernetesTests},
	{"Kubernetes: a renewal waits behind one that is silent", "backends/kubernetes/kubernetes.go", "if q.IsHedge {", "if false {", kubernetesTests},
	{"Kubernetes: a Lease that is deleted tells nobody", "backends/kubernetes/watch.go", "if err != nil || e.Type == api.Deleted {", "if err != nil {", kubernetesTests},
	{"Kubernetes: a holder that is taken out is not told", "backends/kubernetes/watch.go", "!r.Free() && !s.held() && (!was", "!r.Free() && !s.held() && was && (!was", kubernetesTests},
	{"Kubernetes: a holder whose clock is wrong is taken for dead again and again", "backends/kubernetes/signs.go", "last.beat, last.went = r.Beat, now", "last.beat = r.Beat", kubernetesTests},
	{"Kubernetes: a beat of long ago is a sign of life", "backends/kubernetes/signs.go", "return !last.went.IsZero() && now.Sub(last.went) <", "return !last.went.IsZero() && time.Second <", kubernetesTests},
	{"Kubernetes: a note that was put back is believed", "backends/kubernetes/read.go", " && isOurs(l, recordKey) && isOurs(l, beatKey) {", " {", kubernetesTests},
	{"Kubernetes: a beat that was put back alone is believed", "backends/kubernetes/read.go", " && isOurs(l, beatKey) {", " {", kubernetesTests},
	{"Kubernetes: reads may be out of date", "backends/kubernetes/api/requests.go", "path: c.lease(name)})", "path: c.lease(name), params: url.Values{\"resourceVersion\": {\"0\"}}})", kubernetesTests},
	{"Kubernetes: a request is sent again by net/http", "backends/kubernetes/api/client.go", "var body io.Reader = struct{ io.Reader }{strings.NewReader(\"\")}", "var body io.Reader", kubernetesTests},
	{"Kubernetes: a credential is not replaced ahead of time", "internal/credentialplugin/credentialplugin.go", "if s.last.lasts(ahead) {", "if s.last.lasts(early) {", pluginTests},
	{"Kubernetes: nobody hears of a plugin that failed after its request", "internal/credentialplugin/credentialplugin.go", "r.last, r.err, r.ended = c, err, time.Now()\n", "r.last, r.err, r.ended = c, err, time.Now()\n\ts.run = nil\n", pluginTests},
	{"Kubernetes: a credential plugin runs on when its source is closed", "internal/credentialplugin/credentialplugin.go", "s.plugin.run(s.life, &s.unended)", "s.plugin.run(context.WithoutCancel(s.life), &s.unended)", pluginTests},
	{"Kubernetes: a credential plugin that cannot be killed is waited for", "internal/credentialplugin/credentialplugin.go", "case <-time.After(lingers):", "case <-time.After(24 * time.Hour):", pluginTests},
	{"Kubernetes: a credential plugin outlives a process that was killed", "internal/credentialplugin/death_linux.go", ", Pdeathsig: syscall.SIGKILL", "", pluginTests},
	{"Kubernetes: a system that starts no credential plugin now has none", "internal/credentialplugin/credentialplugin.go", "if errors.Is(err, missing) {", "if missing != nil {", pluginTests},
	{"Kubernetes: a refusal that may pass is final", "backends/kubernetes/errors.go", "if e.Passing || s.starting(ctx) {", "if s.starting(ctx) {", kubernetesTests},
	{"Kubernetes: a refusal may pass for ever", "backends/kubernetes/api/door.go", "time.Since(d.refused) < forgiven)", "true)", kubernetesTests},
}
