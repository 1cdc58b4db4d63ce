package examples

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pod is what the manifest says of one.
type pod struct {
	Containers []struct {
		Env []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		Command []string
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
func (w *world) startPod(p pod, job string) *host {
	w.t.Helper()
	c := p.Containers[0]
	env := []string{"HOME=" + w.path("home"), "PATH=" + bin + ":/usr/bin:/bin"}
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
func TestKubernetesTick(t *testing.T) {
	t.Parallel()
	p, _ := cronPod(t)
	w := newWorld(t)
	w.tool("report", `echo "run $LEADERRUN_JOB $LEADERRUN_TICK $*" >>$DIR/log`, "while ! test -e $DIR/go; do sleep 0.01; done")
	one := w.startPod(p, "nightly-report-26297400")
	w.until("log", "run ")
	two := w.startPod(p, "nightly-report-26297400")
	w.write("go", "")
	one.expect(0, "")
	two.expect(0, "")
	w.startPod(p, "nightly-report-26297400").expect(0, "")
	w.startPod(p, "nightly-report-26298840").expect(0, "")
	const want = "run nightly-report 2020-01-01T02:00:00Z --full\nrun nightly-report 2020-01-02T02:00:00Z --full\n"
	if got := w.read("log"); got != want {
		t.Errorf("the log has %q, want %q", got, want)
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
