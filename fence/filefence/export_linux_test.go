package filefence

var (
	MountOf   = mountOf
	MountedAs = mountedAs
)
