package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// report is all that was measured in one run. Its JSON has every value: tables and charts are made from it.
type report struct {
	Made     origin    `json:"made"`
	Measures []measure `json:"measures"`
}

// origin is where and when a report was made.
type origin struct {
	Date     string            `json:"date"`
	Commit   string            `json:"commit"`
	Command  string            `json:"command"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	MemoryMB int               `json:"memory_mb"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Versions map[string]string `json:"versions"`
}

// measure is what one question found out about several ways.
type measure struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"` // standbys, or jobs
	Unit string `json:"unit"`
	Rows []row  `json:"rows"`
}

// row is what was found out about one way. Values of the same place in two rows are from one round.
type row struct {
	Way    string    `json:"way"`
	Peer   string    `json:"peer,omitempty"`
	Values []float64 `json:"values,omitempty"`
	Note   string    `json:"note,omitempty"` // why there are none
}

// newReport returns a report without measures.
func newReport() *report {
	return &report{Made: origin{
		Date:     time.Now().Format(time.DateOnly),
		Commit:   commit(),
		Command:  strings.Join(append([]string{"go run ./scripts/bench"}, os.Args[1:]...), " "),
		CPU:      processor(),
		Cores:    runtime.NumCPU(),
		MemoryMB: int(meminfo("MemTotal")),
		Kernel:   kernel(),
		Go:       strings.TrimPrefix(runtime.Version(), "go"),
		Versions: versions(),
	}}
}

// of returns the row of a way in a measure, and makes both where there are none.
func (r *report) of(name string, size int, unit string, w way) *row {
	m := r.find(name, size)
	if m == nil {
		r.Measures = append(r.Measures, measure{Name: name, Size: size, Unit: unit})
		m = &r.Measures[len(r.Measures)-1]
	}
	if found := m.row(w.name); found != nil {
		return found
	}
	m.Rows = append(m.Rows, row{Way: w.name, Peer: w.peer})
	return &m.Rows[len(m.Rows)-1]
}

// add notes values of a way.
func (r *report) add(name string, size int, unit string, w way, values ...float64) {
	to := r.of(name, size, unit, w)
	for _, v := range values {
		to.Values = append(to.Values, brief(v))
	}
}

// note adds a value of a way unless it could not be measured, and returns why not.
func (r *report) note(err error, name string, size int, unit string, w way, v float64) error {
	if err == nil {
		r.add(name, size, unit, w, v)
	}
	return err
}

// find returns a measure, or nil.
func (r *report) find(name string, size int) *measure {
	for i := range r.Measures {
		if m := &r.Measures[i]; m.Name == name && m.Size == size {
			return m
		}
	}
	return nil
}

// row returns the row of a way that has values or a note, or nil. A nil measure has none.
func (m *measure) row(way string) *row {
	if m == nil {
		return nil
	}
	for i := range m.Rows {
		if m.Rows[i].Way == way {
			return &m.Rows[i]
		}
	}
	return nil
}

// values returns those of a way. A nil measure has none.
func (m *measure) values(way string) []float64 {
	if row := m.row(way); row != nil {
		return row.Values
	}
	return nil
}

// brief rounds to five digits, which are more than can be measured.
func brief(v float64) float64 {
	if v == 0 {
		return 0
	}
	const digits = 5
	unit := math.Pow(10, digits-1-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	// A list of values is one line.
	text = regexp.MustCompile(`,\n {5}\s*(-?\d)`).ReplaceAll(text, []byte(", $1"))
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// readReports reads what was written, one file after the other: of what two have measured, the later counts. The
// first says where and when.
func readReports(paths string) (*report, error) {
	var all report
	for i, path := range strings.Split(paths, ",") {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var one report
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if i == 0 {
			all.Made = one.Made
		}
		for _, m := range one.Measures {
			if former := all.find(m.Name, m.Size); former != nil {
				*former = m
			} else {
				all.Measures = append(all.Measures, m)
			}
		}
	}
	return &all, nil
}

// versions asks what is compared for its version. What is not there has none.
func versions() map[string]string {
	number := regexp.MustCompile(`\d+\.\d+(\.\d+)?`)
	all := map[string]string{}
	for name, option := range map[string]string{
		"flock": "--version", "redis-server": "--version", "etcd": "--version", "consul": "version", "postgres": "--version",
		"kube-apiserver": "", cronPeer: "",
	} {
		path, err := program(name)
		if err != nil {
			continue
		}
		if built, err := buildinfo.ReadFile(path); err == nil && option == "" { // it does not know
			all[name] = number.FindString(built.Main.Version)
			continue
		}
		out, _ := exec.Command(path, option).CombinedOutput()
		all[name] = number.FindString(string(out))
	}
	if jars, _ := filepath.Glob("/usr/share/java/zookeeper-[0-9]*.jar"); len(jars) > 0 {
		all["zookeeper"] = number.FindString(filepath.Base(jars[len(jars)-1]))
	}
	return all
}

// commit returns the revision that is measured, with a mark if files differ from it.
func commit() string {
	out, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	changed, _ := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "*.go", "*.lua", "go.mod").Output()
	if len(changed) > 0 {
		return strings.TrimSpace(string(out)) + " with changes"
	}
	return strings.TrimSpace(string(out))
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(text), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, " \t:")
}

// kernel returns what Linux calls itself, without what a distribution adds.
func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return "Linux " + regexp.MustCompile(`^\d+\.\d+`).FindString(string(text))
}
