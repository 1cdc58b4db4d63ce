package metrics

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processFamilies asks Go and the operating system what they know of this process, under the names that every Go program has for it.
// What one of them cannot tell is left out.
func processFamilies(started time.Time) []*family {
	var list []*family
	tell := func(d definition, value float64, labels ...string) {
		f := newFamily(d)
		f.at(labels...).value = value
		list = append(list, f)
	}
	gauges := func(name, help string, value float64) { tell(definition{name: name, kind: gauge, help: help}, value) }
	version := []string{"version"}
	tell(definition{name: "go_info", kind: gauge, labels: version, help: "Information about the Go environment."}, 1, runtime.Version())
	gauges("go_goroutines", "Number of goroutines that currently exist.", float64(runtime.NumGoroutine()))
	threads, _ := runtime.ThreadCreateProfile(nil)
	gauges("go_threads", "Number of OS threads created.", float64(threads))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	gauges("go_memstats_alloc_bytes", "Number of bytes allocated in heap and currently in use.", float64(memory.Alloc))
	gauges("go_memstats_heap_inuse_bytes", "Number of heap bytes that are in use.", float64(memory.HeapInuse))
	gauges("go_memstats_sys_bytes", "Number of bytes obtained from system.", float64(memory.Sys))
	gauges("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", seconds(started))

	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		spent := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
		tell(definition{name: "process_cpu_seconds_total", kind: counter, help: "Total user and system CPU time spent in seconds."}, spent)
	}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		gauges("process_max_fds", "Maximum number of open file descriptors.", float64(files.Cur))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		gauges("process_open_fds", "Number of open file descriptors.", float64(len(open)-1)) // without the directory itself
	}
	if size, resident, ok := memoryOf("/proc/self/statm"); ok {
		gauges("process_virtual_memory_bytes", "Virtual memory size in bytes.", size)
		gauges("process_resident_memory_bytes", "Resident memory size in bytes.", resident)
	}
	return list
}

// memoryOf reads the first two fields of proc_pid_statm(5), which count pages.
func memoryOf(path string) (size, resident float64, ok bool) {
	text, err := os.ReadFile(path)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0, 0, false
	}
	page := float64(os.Getpagesize())
	size, sizeErr := strconv.ParseFloat(fields[0], 64)
	resident, residentErr := strconv.ParseFloat(fields[1], 64)
	return size * page, resident * page, sizeErr == nil && residentErr == nil
}
