// stamp FILE NUMBER appends to FILE a line with the number and the time at which this program began. It is the
// command of a job: small, so that what is measured is who starts it.
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec now;
	char line[64];

	if (argc != 3 || clock_gettime(CLOCK_REALTIME, &now))
		return 2;
	int length = snprintf(line, sizeof line, "%s %lld%09ld\n", argv[2], (long long)now.tv_sec, now.tv_nsec);
	int fd = open(argv[1], O_WRONLY | O_APPEND);
	return fd < 0 || write(fd, line, length) != length;
}
