package command

func fenceHTTPCommand() *command {
	return &command{
		name: "fence http", args: "TODO", brief: "TODO",
		about:   "TODO",
		options: fenceOptions(), run: runFenceHTTP, rest: true,
	}
}

func runFenceHTTP(*call) (End, error) {
	return End{}, usage("fence http", "this version does not have it yet", "")
}
