package command

func fenceS3Command() *command {
	return &command{
		name: "fence s3", args: "TODO", brief: "TODO",
		about:   "TODO",
		options: fenceOptions(), run: runFenceS3, rest: true,
	}
}

func runFenceS3(*call) (End, error) {
	return End{}, usage("fence s3", "this version does not have it yet", "")
}
