package cli

// What a run hands to its child. None of these is ever read as an option.
const (
	JobVariable      = Prefix + "JOB"
	TokenVariable    = Prefix + "TOKEN"
	NativeVariable   = Prefix + "NATIVE_TOKEN"
	HolderVariable   = Prefix + "HOLDER"
	TickVariable     = Prefix + "TICK"
	TickUnixVariable = Prefix + "TICK_UNIX"
	OnceVariable     = Prefix + "ONCE"
	AttemptVariable  = Prefix + "ATTEMPT"
	SocketVariable   = Prefix + "SOCKET"
	SlotVariable     = Prefix + "SLOT"
	SlotsVariable    = Prefix + "SLOTS"
	ShardVariable    = Prefix + "SHARD"
	ShardsVariable   = Prefix + "SHARDS"
)
