package examples

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/test/servers"
)

// pod is what a manifest says of one.
type pod struct {
	ServiceAccountName string `yaml:"serviceAccountName"`
	Grace              int    `yaml:"terminationGracePeriodSeconds"`
	Containers         []struct {
		Env []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		Command      []string
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name   string
		Secret struct {
			SecretName string `yaml:"secretName"`
		}
	}
	RestartPolicy string `yaml:"restartPolicy"`
}

// cronPod returns the pods of the CronJob, and the exit codes after which Kubernetes starts no other one.
func cronPod(t *testing.T) (p pod, final []int) {
	t.Helper()
	var cronJob struct {
		Kind string
		Spec struct {
			JobTemplate struct {
				Spec struct {
					PodFailurePolicy struct {
						Rules []struct {
							Action      string
							OnExitCodes struct {
								Operator string
								Values   []int
							} `yaml:"onExitCodes"`
						}
					} `yaml:"podFailurePolicy"`
					Template struct{ Spec pod }
				}
			} `yaml:"jobTemplate"`
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, "kubernetes/cronjob.yaml")), &cronJob); err != nil {
		t.Fatal(err)
	}
	job := cronJob.Spec.JobTemplate.Spec
	if cronJob.Kind != "CronJob" || len(job.Template.Spec.Containers) != 1 || len(job.PodFailurePolicy.Rules) != 1 {
		t.Fatalf("%+v", cronJob)
	}
	if job.Template.Spec.RestartPolicy != "Never" {
		t.Error("a podFailurePolicy is refused unless restartPolicy is Never")
	}
	return job.Template.Spec, job.PodFailurePolicy.Rules[0].OnExitCodes.Values
}

var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// startPod starts the container of a pod as Kubernetes does: it replaces $(NAME) in the command and takes $$ for $.
func (w *world) startPod(p pod, job string, more ...string) *host {
	w.t.Helper()
	c := p.Containers[0]
	env := append([]string{"HOME=" + w.path("home"), "TMPDIR=" + w.path("home"), "PATH=" + bin + ":/usr/bin:/bin"}, more...)
	values := map[string]string{}
	for _, v := range c.Env {
		values[v.Name] = w.relocate(v.Value)
		if path := v.ValueFrom.FieldRef.FieldPath; path != "" {
			if path != "metadata.labels['batch.kubernetes.io/job-name']" {
				w.t.Fatalf("what is %s?", path)
			}
			values[v.Name] = job
		}
		env = append(env, v.Name+"="+values[v.Name])
	}
	var words []string
	for _, word := range c.Command {
		words = append(words, w.relocate(reference.ReplaceAllStringFunc(word, func(r string) string {
			if value, ok := values[strings.Trim(r, "$()")]; ok {
				return value
			}
			return strings.Replace(r, "$$", "$", 1)
		})))
	}
	return w.start(env, "", words...)
}

// Pods of two clusters come for one tick, a pod that replaces another too: it runs once. The next tick is another run.
// The clusters have nothing in common but a store that is in neither; what is a world elsewhere is a cluster here.
func TestKubernetesTick(t *testing.T) {
	t.Parallel()
	servers.Require(t, "etcd")
	p, _ := cronPod(t)
	store := servers.Etcd(t, servers.EtcdOptions{})
	one, two := newWorld(t), newWorld(t)
	for _, w := range []*world{one, two} {
		w.write("backend", store.URL()+"\n")
		w.tool("report", `echo "run $LEADERRUN_JOB $LEADERRUN_TICK $*" >>`+one.path("log"), "while ! test -e "+one.path("go")+"; do sleep 0.01; done")
	}
	inOne := func(job string) *host { return one.startPod(p, job, "TZ=America/New_York") }
	inTwo := func(job string, more ...string) *host { return two.startPod(p, job, append(more, "TZ=Asia/Tokyo")...) }
	first := inOne("nightly-report-26297400")
	one.until("log", "run ")
	standby := inTwo("nightly-report-26297400", "LEADERRUN_LOG_LEVEL=info")
	standby.says("standing by behind ")
	one.write("go", "")
	first.expect(0, "")
	if code, output := standby.wait(); code != 0 {
		t.Errorf("the pod of the other cluster: code %d: %s", code, output)
	}
	inOne("nightly-report-26297400").expect(0, "") // in the place of the first
	inTwo("nightly-report-26298840").expect(0, "")
	inOne("nightly-report-26298840").expect(0, "")
	const want = "run nightly-report 2020-01-01T02:00:00Z --full\nrun nightly-report 2020-01-02T02:00:00Z --full\n"
	if got := one.read("log"); got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// The command of the page makes the secret that the manifest mounts, with the file that leaderrun reads.
func TestKubernetesSecret(t *testing.T) {
	t.Parallel()
	p, _ := cronPod(t)
	c := p.Containers[0]
	if len(p.Volumes) != 1 || len(c.VolumeMounts) != 1 || c.VolumeMounts[0].Name != p.Volumes[0].Name {
		t.Fatalf("volumes %+v, mounted %+v", p.Volumes, c.VolumeMounts)
	}
	var file string
	for _, v := range c.Env {
		if v.Name == "LEADERRUN_BACKEND_FILE" {
			file = v.Value
		}
	}
	key, inside := strings.CutPrefix(file, c.VolumeMounts[0].MountPath+"/")
	command := "\nkubectl create secret generic " + p.Volumes[0].Secret.SecretName + " --from-file=" + key + "="
	if !inside || !strings.Contains(text(t, "kubernetes/cronjob.md"), command) {
		t.Errorf("the page has no command like %q for %s", command, file)
	}
}

// What a new pod would not mend ends the Job. A Job that somebody made by hand has no tick, and runs nothing.
func TestKubernetesFailures(t *testing.T) {
	t.Parallel()
	p, final := cronPod(t)
	w := newWorld(t)
	w.tool("report", `echo run >>$DIR/log`, "exit 3")
	if code, output := w.startPod(p, "nightly-report-26297400").wait(); code != 3 {
		t.Errorf("code %d, want the command's: %s", code, output)
	}
	for job, want := range map[string]int{
		"nightly-report-26297400": 76, // the next pod of the same Job
		"nightly-report-by-hand":  64,
		"nightly-report-try-1":    76,
		"nightly-report-99999999": 78, // in the year 2160
	} {
		if code, output := w.startPod(p, job).wait(); code != want || !slices.Contains(final, code) {
			t.Errorf("%s: code %d, want %d, which ends the Job: %s", job, code, want, output)
		}
	}
	if got := w.read("log"); got != "run\n" {
		t.Errorf("the log has %q, want one run", got)
	}
}
