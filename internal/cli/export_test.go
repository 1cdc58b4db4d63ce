package cli

// What the scripts set, and read, which know all families.
var (
	JobsPatience = &jobsPatience
	OpenDriver   = &openDriver
	Commands     = commands
)
