package cli

// What the scripts set, and read, which know all families.
var (
	Families     = &families
	JobsPatience = &jobsPatience
	OpenDriver   = &openDriver
	Commands     = commands
)
