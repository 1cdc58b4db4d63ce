package crontab

import "testing"

// The names are a contract: whoever has a job of that name in a store has it after an upgrade, too.
func TestName(t *testing.T) {
	for script, want := range map[string]string{
		`php /var/www/app/artisan schedule:run >> /dev/null 2>&1`: "artisan",
		`cd /var/www && php artisan schedule:run`:                 "artisan",
		`/usr/local/bin/report --full`:                            "report",
		`certbot renew --quiet`:                                   "certbot-renew",
		`certbot -q renew`:                                        "certbot",
		`test -x /usr/bin/certbot -a \! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && certbot -q renew`: "certbot",
		`command -v debian-sa1 > /dev/null && debian-sa1 1 1`:                                                           "debian-sa1",
		`[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi`:       "sessionclean",
		`if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]; then /usr/share/mdadm/checkarray --cron; fi`:   "checkarray",
		`test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )`:                                   "cron.daily",
		`flock -n /tmp/x.lock /opt/sync.sh`:                          "sync",
		`/usr/bin/flock -w 5 /tmp/x.lock -c 'cd /x && make build'`:   "make-build",
		`nice -n 19 ionice -c3 timeout -k 5 30m backup.py /home`:     "backup",
		`sudo -u www-data -- php -d memory_limit=-1 bin/console x:y`: "console",
		`su - git -c "/opt/gitlab/bin/gitlab-backup create"`:         "gitlab-backup-create",
		`FOO=bar BAR="x y" /bin/sh -c 'a | b'`:                       "a",
		`bash -euo pipefail -c "dump | gzip > x"`:                    "dump",
		`bash /opt/x/nightly.bash now`:                               "nightly-now",
		`python3 -m app.tasks.cleanup`:                               "app.tasks.cleanup",
		`echo hello`:                                                 "echo",
		`flock -n x echo hello`:                                      "echo",
		`(flock -n 9 || exit 1; /opt/sync) 9>/tmp/lock`:              "sync",
		`flock -nE 5 /tmp/lock /opt/sync`:                            "sync",
		`flock -n /tmp/lock`:                                         "flock",
		`sudo -Hu www-data /opt/sync`:                                "sync",
		`sudo -uwww-data /opt/sync`:                                  "sync",
		`consul lock -pass-stdin locks/x feed`:                       "feed",
		`nice -n 5 timeout 9 sleep 8`:                                "sleep",
		`python3 -c 'print(1)'`:                                      "python3",
		`python3 -c 'print(1)' x`:                                    "python3",
		`FOO=bar echo hello`:                                         "echo",
		`echo hello | mail -s x root`:                                "mail",
		`curl -s https://user:pw@example.com/`:                       "curl",
		`https://user:pw@example.com`:                                nameless,
		`login hunter2`:                                              "login",
		`login Secret`:                                               "login",
		`mysqldump -uroot -phunter shop`:                             "mysqldump",
		`backup --password hunter`:                                   "backup",
		`TOKEN=abc`:                                                  nameless,
		``:                                                           nameless,
		`"$HOME"/bin/x`:                                              "x",
		`$HOME/bin/x y`:                                              "x-y",
		`$RUN secret`:                                                nameless,
		`> /var/log/x`:                                               nameless,
		`leaderrun run --schedule '0 2 * * *' nightly -- report`:     "nightly",
		`/usr/bin/leaderrun run -k 5 --shell -- x 'a | b'`:           "x",
		`bundle exec rake stats:nightly`:                             "rake",
		`java -Xmx1g -jar /srv/app/job-1.2.jar run`:                  "job-1.2-run",
		`for f in /x/*; do process "$f"; done`:                       "process",
		`consul lock -try=10s -n 1 locks/x /opt/feed.sh`:             "feed",
		`consul kv get x`:                                            "consul-kv",
		`etcdctl --endpoints e:2379 lock --ttl=20 x feed`:            "feed",
		`docker exec -t gitlab gitlab-backup create`:                 "docker-exec",
	} {
		if got := Name(script); got != want {
			t.Errorf("%s: got %s, want %s", script, got, want)
		}
	}
}

// The names that import writes: more words, and no secrets.
func TestLongName(t *testing.T) {
	for script, want := range map[string]string{
		`cd /var/www && php artisan schedule:run >>/dev/null 2>&1`: "artisan-schedule-run",
		`php /x/artisan queue:prune-failed --hours=48`:             "artisan-queue-prune-failed",
		`wp cron event run --due-now`:                              "wp-cron-event-run",
		`docker exec app discourse backup`:                         "docker-exec-app-discourse",
		`docker exec -t gitlab gitlab-backup create`:               "docker-exec",
		`curl -s -u me:pw https://example.com/x`:                   "curl",
		`curl https://example.com/x`:                               "curl",
		`login me:hunter2`:                                         "login",
		`a b=c`:                                                    "a",
		`a -- b`:                                                   "a",
		`$RUN schedule:run`:                                        nameless,
		`./-x`:                                                     "x",
		`/opt/sync.sh`:                                             "sync",
		`a-very-long-program-with-a-name-of-nearly-sixty-bytes it-is`:     "a-very-long-program-with-a-name-of-nearly-sixty-bytes-it-is",
		`a-very-long-program-with-a-name-of-nearly-sixty-bytes is-longer`: "a-very-long-program-with-a-name-of-nearly-sixty-bytes",
	} {
		if got := LongName(script); got != want {
			t.Errorf("%s: got %s, want %s", script, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	var n Names
	n.Take("sync-2")
	for _, want := range []string{"sync", "sync-3", "sync-4"} {
		if got := n.Derive("/opt/sync.sh /a"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n.Take("sync") {
		t.Error("sync is free")
	}
}
