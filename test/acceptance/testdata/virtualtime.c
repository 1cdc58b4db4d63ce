/* Makes the machine's cron(8) live through a year in seconds: loaded into it by LD_PRELOAD, this gives it a clock
 * that stands still while it works and jumps when it sleeps. What it would run is written down instead of run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static time_t now, end;
static pid_t daemon_pid;
static char log_path[4096];

__attribute__((constructor)) static void begin(void) {
	now = atoll(getenv("VIRTUAL_START"));
	end = atoll(getenv("VIRTUAL_END"));
	strncpy(log_path, getenv("VIRTUAL_LOG"), sizeof log_path - 1);
	daemon_pid = getpid();
}

time_t time(time_t *t) {
	if (t)
		*t = now;
	return now;
}

unsigned int sleep(unsigned int seconds) {
	if (getpid() == daemon_pid) {
		while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
			;
		now += seconds;
		if (now >= end)
			_exit(0);
	}
	return 0;
}

/* cron drops a job for which there is no process, and tells syslog only. What it forks off for a job would fork a
 * second time and wait: it goes on as the command itself. */
pid_t fork(void) {
	if (getpid() != daemon_pid)
		return 0;
	static pid_t (*real)(void);
	if (!real)
		real = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
	pid_t pid = real();
	if (pid < 0) {
		perror("fork");
		abort();
	}
	return pid;
}

/* cron executes SHELL -c COMMAND. */
int execle(const char *path, const char *arg0, ...) {
	va_list words;
	va_start(words, arg0);
	va_arg(words, const char *); /* -c */
	const char *command = va_arg(words, const char *);
	va_end(words);
	char line[1024];
	int n = snprintf(line, sizeof line, "%lld %s\n", (long long)now, command);
	int fd = open(log_path, O_WRONLY | O_APPEND);
	if (fd < 0 || write(fd, line, n) != n)
		abort();
	_exit(0);
}

/* A command that does not run needs no other user: to look up one's groups takes longer than all the rest. */
int is_selinux_enabled(void) { return 0; }
int initgroups(const char *user, gid_t group) { return 0; }
int setgid(gid_t group) { return 0; }
int setuid(uid_t user) { return 0; }

/* No session is opened for a command that does not run. */
int pam_start(const char *service, const char *user, const void *conv, void **handle) {
	*handle = &now;
	return 0;
}
int pam_set_item(void *h, int type, const void *item) { return 0; }
int pam_acct_mgmt(void *h, int flags) { return 0; }
int pam_setcred(void *h, int flags) { return 0; }
int pam_open_session(void *h, int flags) { return 0; }
int pam_close_session(void *h, int flags) { return 0; }
int pam_end(void *h, int status) { return 0; }
char **pam_getenvlist(void *h) { return calloc(1, sizeof(char *)); }
