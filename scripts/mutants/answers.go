package main

var (
	limitTests      = []string{"./internal/httplimit"}
	hostileConsul   = []string{"./backends/consul", "-run", "TestHollowAnswers|TestLargeAnswers"}
	hostileCluster  = []string{"./backends/kubernetes/...", "-run", "TestHostileAnswers|TestHollowAnswers|TestCredentialsInClear|TestUpperCaseScheme"}
	hostileMember   = []string{"./backends/etcd/rpc", "-run", "TestLargeAnswers"}
	hostileAnybody  = []string{"./internal/cli", "-run", "TestUnsolicitedAnswer"}
	hostileEndless  = []string{"./backends/kubernetes", "-run", "TestEndlessList"}
	answersOfEvents = []string{"./backends/kubernetes/api", "-run", "TestManyEvents"}
)

// answerMutants break the rules of what the answers of servers may cost, and of who sees a credential.
var answerMutants = []mutant{
	{"HTTP: an answer that switches protocols is taken", "internal/httplimit/httplimit.go", "if r.StatusCode == http.StatusSwitchingProtocols {", "if false {", limitTests},
	{"HTTP: JSON may have any number of values", "internal/httplimit/httplimit.go", "if values > MostValues || depth", "if depth", limitTests},
	{"HTTP: JSON may be of any depth", "internal/httplimit/httplimit.go", " || depth > MostDepth", "", limitTests},
	{"HTTP: any number of large answers is in memory", "internal/httplimit/httplimit.go", "if p.taken != nil || bytes < small {", "if p.taken != nil || bytes >= 0 {", limitTests},
	{"HTTP: watches take the places of requests", "internal/httplimit/httplimit.go", "if ctx.Value(watching{}) != nil {", "if ctx.Value(watching{}) == 7 {", []string{"./internal/httplimit", "-timeout", "100s"}},
	{"HTTP: a place is kept when the answer is closed", "internal/httplimit/httplimit.go", "func (b *Body) Close() error {\n\tb.place.Leave()\n", "func (b *Body) Close() error {\n", limitTests},
	{"HTTP: answers are unpacked", "internal/httplimit/httplimit.go", "t.DisableCompression = true", "t.DisableCompression = false", limitTests},
	{"HTTP: what libraries log reaches stderr past the console", "internal/cli/main.go", "\thearLibraries(console)\n", "", hostileAnybody},
	{"memory has no aim", "internal/cli/main.go", "\tboundMemory()\n", "", []string{"./internal/cli", "-run", "TestScripts/^environment$"}},
	{"Consul: null in the place of a key is taken", "backends/consul/read.go", "case p == nil || p.Key == \"\" || p.ModifyIndex == 0,", "case p == nil,", hostileConsul},
	{"Consul: the lock of another session is taken for ours", "backends/consul/swap.go", "if last == nil || step.Verb == api.KVLock && last.Session != step.Session {", "if last == nil {", hostileConsul},
	{"Consul: an answer may become anything", "backends/consul/roundtripper.go", "err = httplimit.Weigh(text)", "err = nil", hostileConsul},
	{"Kubernetes: a credential is shown without TLS", "backends/kubernetes/kubeconfig/kubeconfig.go", "case !c.Cluster.Local:", "case false:", hostileCluster},
	{"Kubernetes: a credential is shown to a proxy on this host", "backends/kubernetes/kubeconfig/kubeconfig.go", "c.User, c.Withheld = User{}, true", "c.Withheld = true", hostileCluster},
	{"Kubernetes: HTTPS:// is no TLS", "backends/kubernetes/kubeconfig/check.go", "u.Scheme == \"https\", isLoopback", "c.Server[:6] == \"https:\", isLoopback", hostileCluster},
	{"Kubernetes: null in the place of a Lease is taken", "backends/kubernetes/api/requests.go", "func(l Listed) bool { return !isName(l.Name) }", "func(Listed) bool { return false }", hostileCluster},
	{"Kubernetes: a list has no end", "backends/kubernetes/list.go", "case size > mostList:", "case false:", hostileEndless},
	{"Kubernetes: all events of a watch count as one answer", "backends/kubernetes/api/watch.go", "\t\tnextMessage(reply.Body)\n", "", answersOfEvents},
	{"etcd: a message may have any number of elements", "backends/etcd/rpc/wire.go", "if len(*all) >= most {", "if len(*all) < 0 {", hostileMember},
}
