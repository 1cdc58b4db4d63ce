package examples

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/servers"
)

// feedPod returns the pods of the Deployment.
func feedPod(t *testing.T) pod {
	t.Helper()
	var deployment struct {
		Spec struct{ Template struct{ Spec pod } }
	}
	if err := yaml.Unmarshal([]byte(text(t, "kubernetes/deployment.yaml")), &deployment); err != nil {
		t.Fatal(err)
	}
	p := deployment.Spec.Template.Spec
	if len(p.Containers) != 1 {
		t.Fatalf("%+v", p)
	}
	return p
}

// An API server takes every manifest, and each field of it.
func TestKubernetesTakesTheManifests(t *testing.T) {
	t.Parallel()
	s := servers.SharedKubernetes(t)
	for _, manifest := range []string{"kubernetes/deployment.yaml", "kubernetes/cronjob.yaml", "../backends/kubernetes/role.yaml"} {
		if err := s.TryApply(s.Namespace(t), text(t, manifest)); err != nil {
			t.Errorf("%s: %v", manifest, err)
		}
	}
}

// Kubernetes kills a pod that outstays its grace. By then the command had its own, was killed, and its end was recorded,
// or the lease has run out.
func TestGraceOfThePod(t *testing.T) {
	t.Parallel()
	report, _ := cronPod(t)
	for manifest, p := range map[string]pod{"deployment.yaml": feedPod(t), "cronjob.yaml": report} {
		killAfter, ttl := p.setting(t, "kill-after", 0), p.setting(t, "ttl", runner.DefaultTTL)
		if killAfter == 0 {
			t.Errorf("%s: the command may end when it wants", manifest)
		}
		if grace := time.Duration(p.Grace) * time.Second; grace < killAfter+ttl+time.Second {
			t.Errorf("%s: a grace of %v is too short for %v and a lease of %v", manifest, grace, killAfter, ttl)
		}
	}
}

// setting is the time that a pod gives for an option, on the command line or in the environment.
func (p pod) setting(t *testing.T, option string, otherwise time.Duration) time.Duration {
	t.Helper()
	said := p.Containers[0].Command
	for _, v := range p.Containers[0].Env {
		said = append(said, v.Name+"="+v.Value)
	}
	variable := "LEADERRUN_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
	m := regexp.MustCompile(`(?:--` + option + `|` + variable + `)[= ](\S+)`).FindStringSubmatch(strings.Join(said, " "))
	if m == nil {
		return otherwise
	}
	d, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// cluster is a namespace of a Kubernetes whose pods are containers that this test makes: there is no kubelet.
type cluster struct {
	t         *testing.T
	server    *servers.KubernetesServer
	namespace string
	image     string // the folder of files that the image holds
	user      string // UID:GID
	pod       pod
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	servers.RequireRoot(t, "kubernetes", "containers")
	c := &cluster{t: t, server: servers.SharedKubernetes(t), image: servers.Dir(t), pod: feedPod(t)}
	c.namespace = c.server.Namespace(t)
	c.server.Apply(t, c.namespace, text(t, "../backends/kubernetes/role.yaml")+"---\n"+text(t, "kubernetes/deployment.yaml"))
	c.server.AwaitRole(t, c.namespace, c.server.Account(c.namespace, c.pod.ServiceAccountName))
	if err := os.Chmod(c.image, 0o755); err != nil { //nolint:gosec // an image
		t.Fatal(err)
	}
	c.user = buildImage(t, "kubernetes", "", c.image).user
	return c
}

func (c *cluster) copy(from, to string, mode os.FileMode) {
	c.t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(to, string(content), mode)
}

func (c *cluster) write(name, content string, mode os.FileMode) {
	c.t.Helper()
	path := filepath.Join(c.image, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), mode)) //nolint:gosec // an image
	if err != nil {
		c.t.Fatal(err)
	}
}

// container is a running pod.
type container struct {
	*host
	first int // the process that is number 1 inside
}

// enter makes a container of the folder $1, in which no process sees those of others, and runs a command as its first
// process, as the user of the image.
const enter = `cd "$1" && mount --bind "$1" "$1" && cd "$1" && mkdir -p proc dev tmp && mount -t proc proc proc && mount --rbind /dev dev &&
mount -t tmpfs -o mode=1777,size=1m none tmp && mount -o remount,ro,bind "$1" && shift && exec env -i "$@"`

// start starts a pod as kubelet does.
func (c *cluster) start(env ...string) *container {
	c.t.Helper()
	const secrets = "var/run/secrets/kubernetes.io/serviceaccount/"
	c.write(secrets+"token", c.server.Token(c.t, c.namespace, c.pod.ServiceAccountName), 0o644)
	c.write(secrets+"namespace", c.namespace, 0o644)
	c.copy(c.server.CA(), secrets+"ca.crt", 0o644)
	address, port, err := net.SplitHostPort(c.server.Addr())
	if err != nil {
		c.t.Fatal(err)
	}
	env = append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"KUBERNETES_SERVICE_HOST="+address, "KUBERNETES_SERVICE_PORT="+port)
	for _, v := range c.pod.Containers[0].Env {
		env = append(env, v.Name+"="+v.Value)
	}
	words := slices.Concat(
		[]string{"unshare", "--fork", "--kill-child", "--pid", "--mount", "sh", "-c", enter, "sh", c.image},
		env, []string{"chroot", "--userspec=" + c.user, "."}, c.pod.Containers[0].Command)
	w := &world{t: c.t, dir: c.image}
	p := &container{host: w.start(os.Environ(), "", words...)}
	servers.Eventually(c.t, "the container has a first process", func() bool {
		if p.ended() {
			c.t.Fatalf("the container has ended: %s", p.said())
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.cmd.Process.Pid))
		p.first, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		return p.first != 0
	})
	return p
}

// signal is what kubelet sends, to the first process.
func (p *container) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.first, sig); err != nil {
		p.t.Fatal(err)
	}
}

func (p *container) says(text string) {
	p.t.Helper()
	servers.Eventually(p.t, text, func() bool {
		if p.ended() {
			p.t.Fatalf("the container has ended: %s", p.said())
		}
		return strings.Contains(p.said(), text)
	})
}

// Pods of the Deployment, in an image with nothing but the two programs and with the rights of the role: one leads, and
// when it is told to end the other one does.
func TestDeployment(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	c := newCluster(t)
	one := c.start()
	one.says("feeding")
	two := c.start("LEADERRUN_LOG_LEVEL=info")
	two.says("standing by behind ")

	one.says("adopted by another process") // what the feed leaves behind
	if said := one.said(); strings.Contains(said, "leaderrun: ") {
		t.Errorf("leaderrun lacks something in this pod: %s", said)
	}

	one.signal(syscall.SIGTERM)
	if code, output := one.wait(); code != 0 || !strings.Contains(output, "told to end") {
		t.Errorf("the leader that is told to end: code %d, %s", code, output)
	}
	two.says("feeding")
	two.signal(syscall.SIGTERM)
	if code, output := two.wait(); code != 0 {
		t.Errorf("the last pod: code %d, %s", code, output)
	}
}
