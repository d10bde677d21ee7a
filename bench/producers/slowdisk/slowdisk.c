/* Preloaded into PostgreSQL, it makes every flush take SLOW_DISK_US microseconds longer, 1000 by default. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int fd)
{
    int (*flush)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *us = getenv("SLOW_DISK_US");
    long delay = us ? atol(us) : 1000;
    struct timespec t = {delay / 1000000, delay % 1000000 * 1000};

    nanosleep(&t, NULL);
    return flush(fd);
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
