package daemon

import "container/heap"

// queue holds jobs by their next tick.
type queue struct{ jobs byTick }

// first returns the job that is due first, or nil.
func (q *queue) first() *job {
	if len(q.jobs) == 0 {
		return nil
	}
	return q.jobs[0]
}

// put puts a job into its place, which its next tick may have changed.
func (q *queue) put(j *job) {
	if j.index < 0 {
		heap.Push(&q.jobs, j)
		return
	}
	heap.Fix(&q.jobs, j.index)
}

// remove takes a job out, if it is in.
func (q *queue) remove(j *job) {
	if j.index >= 0 {
		heap.Remove(&q.jobs, j.index)
	}
}

// byTick implements heap.Interface.
type byTick []*job

func (b byTick) Len() int           { return len(b) }
func (b byTick) Less(i, k int) bool { return b[i].next.Before(b[k].next) }

func (b byTick) Swap(i, k int) {
	b[i], b[k] = b[k], b[i]
	b[i].index, b[k].index = i, k
}

func (b *byTick) Push(x any) {
	j, _ := x.(*job)
	j.index = len(*b)
	*b = append(*b, j)
}

func (b *byTick) Pop() any {
	old := *b
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	j.index = -1
	return j
}
