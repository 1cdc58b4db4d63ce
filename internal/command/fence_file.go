package command

func fenceFileCommand() *command {
	return &command{
		name: "fence file", args: "TODO", brief: "TODO",
		about:   "TODO",
		options: fenceOptions(), run: runFenceFile, rest: true,
	}
}

func runFenceFile(*call) (End, error) {
	return End{}, usage("fence file", "this version does not have it yet", "")
}
