package crontab

import (
	"path"
	"strings"
	"testing"
)

// What stands in a text for another shell is found as if it stood in the line.
func TestCommands(t *testing.T) {
	for script, want := range map[string]string{
		`a | b; c && d`: "a b c d",
		`nice -n 5 timeout 9m sudo -u x env A=b ./a`:          "nice timeout sudo env a",
		`bash -l -c 'cd /srv && a'`:                           "bash srv && a cd a",
		`su - app -c "bash -lc 'a; b'"`:                       "su bash a; b a b",
		`su app --command='a | b'`:                            "su a b",
		`sh -c'a; b'`:                                         "sh a b",
		`flock -n /tmp/x -c 'a'`:                              "flock a",
		`eval 'a &'`:                                          "eval a",
		`consul lock p 'a'`:                                   "consul a a",
		`consul kv put p 'a'`:                                 "consul a",
		`docker exec app sh -c 'a && b'`:                      "docker a b",
		`eatmydata chroot /srv cpulimit -l 50 -- a b`:         "eatmydata chroot cpulimit a",
		`test -x /usr/sbin/x && A=b /usr/sbin/x >/bin/y`:      "test x",
		`if ! command -v a; then b; fi`:                       "b",
		`python3 -c 'import a; b'`:                            "python3 import a; b",
		`mail -s "a & b" joe`:                                 "mail",
		`php8.2 /srv/artisan schedule:run`:                    "php8.2 artisan",
		strings.Repeat("sh -c 'a' ;", 300):                    strings.TrimSpace(strings.Repeat("sh a ", 300) + strings.Repeat("a ", mostTexts-1)),
		`sh -c "` + strings.Repeat(`sh -c '`, 50) + `a` + `"`: "sh sh -c 'sh -c 'sh -c 'sh -c",
	} {
		var got []string
		for _, words := range Read("", script).Commands {
			got = append(got, path.Base(words[0].Text))
		}
		if text := strings.Join(got, " "); text != want && !strings.HasPrefix(text, want+" '") {
			t.Errorf("%s: got %q, want %q", script, text, want)
		}
	}
}

func TestLeavesBehind(t *testing.T) {
	for script, want := range map[string]string{
		`a &`:                                    "&",
		`a & wait`:                               "",
		`a & b; (wait)`:                          "&",
		`bash -l -c 'cd /srv && a &'`:            "&",
		`bash -c 'a & b & wait'`:                 "",
		`su - app -c 'nohup a &'`:                "&",
		`flock -n /tmp/x -c 'a &'`:               "&",
		`eval 'a &'`:                             "&",
		`sudo -u x sh -c 'a &'`:                  "&",
		`mail -s "a & b" joe`:                    "",
		`curl 'http://x/?a=1&b=2'`:               "",
		`a >x 2>&1`:                              "",
		`a &>x`:                                  "&> (to sh an & and a >)",
		`a &>>x`:                                 "&>> (to sh an & and a >)",
		`a &>x; wait`:                            "",
		`bash -c 'a &>x'`:                        "",
		`/bin/bash -lc "su app -c 'a &>x'"`:      "",
		`bash -c "sh -c 'a &>x'"`:                "&> (to sh an & and a >)",
		`screen -dmS x a`:                        "screen -d",
		`screen -d -m a`:                         "screen -d",
		`screen -S d -X quit`:                    "",
		`screen -D -m a`:                         "",
		`tmux new -d -s x a`:                     "tmux -d",
		`tmux new-session -s x -d 'a'`:           "tmux -d",
		`tmux kill-session -t x`:                 "",
		`setsid -f a`:                            "setsid -f",
		`setsid a -f`:                            "",
		`nice setsid --fork a`:                   "setsid -f",
		`daemonize /opt/a`:                       "daemonize",
		`start-stop-daemon --start --background`: "start-stop-daemon",
		`docker exec -d app a`:                   "docker -d",
		`docker exec -it -d app a`:               "docker -d",
		`docker run --rm --name x -itd img a`:    "docker -d",
		`docker compose up --detach`:             "docker -d",
		`docker exec app a -d`:                   "",
		`docker run --rm -v /x:/y img php -d a`:  "",
		`docker-compose exec -T app a`:           "",
		`sudo -b a`:                              "sudo -b",
		`sudo -u b a`:                            "",
		`ssh -f h a`:                             "ssh -f",
		`ssh -i f h tar -xf x`:                   "",
		`ssh h 'nohup a &'`:                      "ssh",
		`echo a | at now`:                        "at",
		`/opt/app/batch run`:                     "",
		`systemd-run --user a`:                   "systemd-run",
		`bash -c 'screen -dm a'`:                 "screen -d",
	} {
		if got := Read("/bin/sh", script).LeavesBehind(); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}

// The work of the host: also behind what starts it and in texts for a shell, but not as a word of another command.
func TestHostWork(t *testing.T) {
	for script, want := range map[string]string{
		`apt-get -y upgrade`:                                                  "apt-get",
		`/usr/bin/certbot renew -q`:                                           "certbot",
		`"/root/.acme.sh"/acme.sh --cron`:                                     "acme.sh",
		`sudo nice -n 19 timeout 5m dnf -y update`:                            "dnf",
		`bash -l -c 'logrotate /srv/logrotate.conf'`:                          "logrotate",
		`su - root -c "sh -c 'ntpdate pool.ntp.org'"`:                         "ntpdate",
		`test -x /usr/sbin/anacron || { cd / && run-parts /x; }`:              "run-parts",
		`/usr/local/sbin/clean`:                                               "clean",
		`test -x /usr/sbin/x && echo x`:                                       "",
		`cd /usr/sbin && ./x`:                                                 "",
		`sleep 70 && touch /etc/banner && reboot`:                             "reboot",
		`if [ -x /usr/lib/zfs-linux/trim ]; then /usr/lib/zfs-linux/trim; fi`: "trim",
		`docker system prune -af`:                                             "docker system prune",
		`docker --host x image prune`:                                         "docker image prune",
		`docker exec app prune system`:                                        "",
		`systemctl --quiet restart x`:                                         "systemctl restart",
		`systemctl is-active x`:                                               "",
		`a && systemctl reload nginx`:                                         "systemctl reload",
		`echo reboot`:                                                         "",
		`mail -s "apt-get upgrade" root`:                                      "",
		`ssh h apt-get upgrade`:                                               "",
		`php /var/www/cron.php >/dev/null 2>&1`:                               "",
		`a --config /etc/sbin/x`:                                              "",
	} {
		if got := Read("", script).HostWork(); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}
