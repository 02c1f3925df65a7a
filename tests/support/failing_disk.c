/* A disk that fails, for any program: preloaded, it counts what is stored under a folder and has chosen calls fail.
 *
 * FAILING_DISK_UNDER names the folder, FAILING_DISK_CONTROL a file of seven 64-bit numbers shared with the test:
 * calls so far, calls that failed, the first call to fail, the first call that succeeds again, the error number,
 * whether the first call to fail stores one half instead, and an error number that makes the folder read-only.
 * `failing_disk_begin` reads both variables anew, for a program that was forked to use another disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct control { int64_t calls, failed, from, until, error, halves, locked; };

static struct control *control;
static char under[4096];

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) void failing_disk_begin(void) {
    const char *folder = getenv("FAILING_DISK_UNDER"), *path = getenv("FAILING_DISK_CONTROL");
    if (!folder || !path) return;
    snprintf(under, sizeof under, "%s", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED) control = shared;
}

static int is_ours(const char *path) {
    size_t length = strlen(under);
    return control && path && !strncmp(path, under, length) && (path[length] == '/' || !path[length]);
}

static int is_our_file(int fd) {
    char link[64], path[4096];
    if (!control) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

/* 0 to let the call pass, 1 to let it store one half, -1 with errno set to have it fail. */
static int verdict(int can_halve) {
    int64_t call = __sync_add_and_fetch(&control->calls, 1);
    if (call < control->from || call >= control->until) return 0;
    __sync_add_and_fetch(&control->failed, 1);
    if (can_halve && control->halves && call == control->from) return 1;
    errno = (int)control->error;
    return -1;
}

static int is_locked(const char *path) {
    if (!is_ours(path) || !control->locked) return 0;
    errno = (int)control->locked;
    return 1;
}

static int refuses_open(const char *path, int flags) {
    if ((flags & (O_CREAT | O_WRONLY | O_RDWR)) && is_locked(path)) return 1;
    struct stat found;
    return (flags & O_CREAT) && is_ours(path) && stat(path, &found) && verdict(0);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return refuses_open(path, flags) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define WRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        REAL(name); \
        int end = is_our_file(fd) ? verdict(size > 1) : 0; \
        return end < 0 ? -1 : real(fd, data, end ? size / 2 : size, offset); \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    int end = is_our_file(fd) ? verdict(size > 1) : 0;
    return end < 0 ? -1 : real(fd, data, end ? size / 2 : size);
}

#define ON_FILE(name, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        return is_our_file(fd) && verdict(0) ? -1 : real arguments; \
    }
ON_FILE(fsync, (int fd), (fd))
ON_FILE(fdatasync, (int fd), (fd))
ON_FILE(ftruncate, (int fd, off_t size), (fd, size))
ON_FILE(ftruncate64, (int fd, off64_t size), (fd, size))

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return is_locked(path) || (is_ours(path) && verdict(0)) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return is_locked(to) || (is_ours(to) && verdict(0)) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    return is_locked(path) ? -1 : real(path);
}
