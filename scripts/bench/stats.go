package main

import (
	"math/rand/v2"
	"slices"
)

// percentile returns the value that p of 100 are not above, between two of them where need be. There is at least one.
func percentile(v []float64, p int) float64 {
	v = slices.Sorted(slices.Values(v))
	const all = 100
	place := (len(v) - 1) * p
	low, share := place/all, float64(place%all)/all
	if share == 0 {
		return v[low]
	}
	return v[low] + share*(v[low+1]-v[low])
}

func median(v []float64) float64 { return percentile(v, 50) }

// ratio is one of two medians, and the interval that holds it with 95% confidence.
type ratio struct {
	value, low, high float64
}

// ratioOf returns how the medians of two ways compare. The values of a round belong together, since a busy moment hits
// both: the interval is the bootstrap's over rounds (the middle 95% of the ratios in a thousand runs, each made of
// rounds that are drawn from the real ones with replacement). The same values give the same interval.
func ratioOf(v, to []float64) ratio {
	const runs = 1000
	n := min(len(v), len(to))
	draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it is to be the same each time
	ratios := make([]float64, runs)
	mine, theirs := make([]float64, n), make([]float64, n)
	for i := range ratios {
		for j := range n {
			round := draw.IntN(n)
			mine[j], theirs[j] = v[round], to[round]
		}
		ratios[i] = median(mine) / median(theirs)
	}
	slices.Sort(ratios)
	return ratio{median(v) / median(to), ratios[runs*25/1000], ratios[runs*975/1000]}
}
