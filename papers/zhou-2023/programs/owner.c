/* A server that refuses to run as root believes that it is the owner of its data. Preloaded. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uid_t owner(long otherwise)
{
	struct stat data;

	return stat("data", &data) == 0 ? data.st_uid : (uid_t)syscall(otherwise);
}

uid_t getuid(void)
{
	return owner(SYS_getuid);
}

uid_t geteuid(void)
{
	return owner(SYS_geteuid);
}
