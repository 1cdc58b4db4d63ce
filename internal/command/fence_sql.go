package command

func fenceSQLCommand() *command {
	return &command{
		name: "fence sql", args: "TODO", brief: "TODO",
		about:   "TODO",
		options: fenceOptions(), run: runFenceSQL, rest: true,
	}
}

func runFenceSQL(*call) (End, error) {
	return End{}, usage("fence sql", "this version does not have it yet", "")
}
