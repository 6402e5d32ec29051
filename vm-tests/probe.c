/* Tries one thing that a sandbox may forbid and says how it went: "ok", or the
 * name of the errno. Static, so that it runs in every guest. What it finds out
 * by itself is what the scenarios hold against ollie's own report.
 *
 *   probe landlock            the ABI, or why there is none
 *   probe truncate FILE       truncate(2): no descriptor, so no open(2) first
 *   probe connect PATH        a pathname Unix stream socket
 *   probe abstract NAME       an abstract Unix stream socket
 *   probe bind PORT           a TCP port of 127.0.0.1
 *   probe kill PID            signal 0
 *   probe listen PATH|@NAME SECONDS    a socket for the two above
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* landlock_create_ruleset(2): its number on every architecture, and the flag
 * that asks for the version; old headers have neither. */
#define CREATE_RULESET 444
#define RULESET_VERSION 1

static int answer(long result)
{
	puts(result < 0 ? strerrorname_np(errno) : "ok");
	return result < 0;
}

static socklen_t named(struct sockaddr_un *address, const char *name, int abstract)
{
	size_t length = strlen(name);

	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	if (length + 2 > sizeof address->sun_path)
		exit(2);
	memcpy(address->sun_path + abstract, name, length);
	return offsetof(struct sockaddr_un, sun_path) + length + 1;
}

static int unix_socket(const char *name, int abstract)
{
	struct sockaddr_un address;
	socklen_t size = named(&address, name, abstract);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	return answer(fd < 0 ? fd : connect(fd, (struct sockaddr *)&address, size));
}

static int listen_on(const char *name, unsigned seconds)
{
	struct sockaddr_un address;
	int abstract = name[0] == '@';
	socklen_t size = named(&address, name + abstract, abstract);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 8))
		return answer(-1);
	answer(0);
	fflush(stdout);
	sleep(seconds);
	return 0;
}

static int bind_port(const char *port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return answer(fd < 0 ? fd : bind(fd, (struct sockaddr *)&address, sizeof address));
}

static int landlock(void)
{
	long abi = syscall(CREATE_RULESET, NULL, 0, RULESET_VERSION);

	if (abi < 0)
		puts(strerrorname_np(errno));
	else
		printf("%ld\n", abi);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "landlock"))
		return landlock();
	if (argc == 3 && !strcmp(what, "truncate"))
		return answer(truncate(argv[2], 0));
	if (argc == 3 && !strcmp(what, "connect"))
		return unix_socket(argv[2], 0);
	if (argc == 3 && !strcmp(what, "abstract"))
		return unix_socket(argv[2], 1);
	if (argc == 3 && !strcmp(what, "bind"))
		return bind_port(argv[2]);
	if (argc == 3 && !strcmp(what, "kill"))
		return answer(kill(atoi(argv[2]), 0));
	if (argc == 4 && !strcmp(what, "listen"))
		return listen_on(argv[2], atoi(argv[3]));
	fputs("probe: no such question\n", stderr);
	return 2;
}
