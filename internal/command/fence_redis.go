package command

func fenceRedisCommand() *command {
	return &command{
		name: "fence redis", args: "TODO", brief: "TODO",
		about:   "TODO",
		options: fenceOptions(), run: runFenceRedis, rest: true,
	}
}

func runFenceRedis(*call) (End, error) {
	return End{}, usage("fence redis", "this version does not have it yet", "")
}
