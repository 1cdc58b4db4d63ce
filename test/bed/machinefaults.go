package bed

import "time"

// machineFaults happen to all processes of a host.
var machineFaults = []Fault{
	{
		Name: "machine frozen", Excused: true, Whole: true, Peers: true,
		Strike: func(b *Bed, v Victim) (func() error, error) { return b.Net.Freeze(v.Host) },
	},
	{
		// A twentieth of a processor, of which each process has its share many times a second.
		Name: "machine slow", Whole: true, Peers: true,
		Strike: func(b *Bed, v Victim) (func() error, error) {
			return b.Net.Starve(v.Host, 5*time.Millisecond, 100*time.Millisecond)
		},
	},
	{
		// A hundredth, in one piece: in between all stand still for longer than a guardian has time to spare.
		Name: "machine starved", Excused: true, Whole: true, Peers: true,
		Strike: func(b *Bed, v Victim) (func() error, error) {
			return b.Net.Starve(v.Host, 10*time.Millisecond, time.Second)
		},
	},
	{
		Name: "power cut", Kills: true, Whole: true, Peers: true, Once: true,
		Strike: func(b *Bed, v Victim) (func() error, error) {
			b.Net.Dies(v.Host)
			return nil, nil
		},
	},
}
