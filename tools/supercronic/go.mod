// supercronic, a cron that the daemon is measured beside, kept out of the product's go.mod. Built by
// scripts/servers.sh into a cache directory.
module github.com/leaderrun/leaderrun/tools/supercronic

go 1.26.5

tool github.com/aptible/supercronic

require (
	github.com/aptible/supercronic v0.2.48 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/certifi/gocertifi v0.0.0-20210507211836-431795d63e8d // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/evalphobia/logrus_sentry v0.8.2 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/getsentry/raven-go v0.2.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/prometheus/client_golang v1.24.1 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	github.com/sirupsen/logrus v1.9.4 // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
