/* Simulated disk for tests (LD_PRELOAD).
 *
 * Copies everything below DISK_ROOT at the time it is flushed: a file to DISK_FLUSHED/files/PATH, the names in a folder as lines of
 * DISK_FLUSHED/names/PATH, with slashes written as plus signs. The program exits right after flush number DISK_CUT.
 * While the file DISK_REFUSE exists, writes to a store's tree fail, or kill the program if the file contains "kill". Everything
 * written to the log has reached the disk by then, as it may at any time.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int flushes;

static void give_up(const char *what)
{
    perror(what);
    abort();
}

/* Path of an open file relative to DISK_ROOT; NULL for files elsewhere and for removed ones. */
static const char *path_of(int file, char *place)
{
    const char *root = getenv("DISK_ROOT");
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, place, PATH_MAX - 1);
    if (root == NULL || length < 0)
        return NULL;
    place[length] = 0;
    size_t begin = strlen(root);
    if (strncmp(place, root, begin) != 0 || strstr(place, " (deleted)") != NULL)
        return NULL;
    return place[begin] == '/' ? place + begin + 1 : place + begin;
}

static void keep_file(int file, const char *path, off_t length)
{
    char name[PATH_MAX * 2];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int from = open(name, O_RDONLY);
    snprintf(name, sizeof name, "%s/files/%s", getenv("DISK_FLUSHED"), path);
    for (char *at = strchr(name + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(name, 0700);
        *at = '/';
    }
    int to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (from < 0 || to < 0)
        give_up(name);
    while (length > 0) {
        ssize_t count = sendfile(to, from, NULL, length);
        if (count < 0)
            give_up(name);
        if (count == 0)
            break;
        length -= count;
    }
    close(from);
    close(to);
}

static void keep_names(int folder, const char *path)
{
    char name[PATH_MAX * 2], flat[PATH_MAX];
    snprintf(flat, sizeof flat, "%s", path);
    for (char *at = flat; *at; at++)
        if (*at == '/')
            *at = '+';
    snprintf(name, sizeof name, "%s/names/%s+", getenv("DISK_FLUSHED"), flat);
    FILE *to = fopen(name, "w");
    snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
    DIR *from = opendir(name);
    if (to == NULL || from == NULL)
        give_up(name);
    for (struct dirent *entry = readdir(from); entry != NULL; entry = readdir(from))
        if (entry->d_name[0] != '.')
            fprintf(to, "%s\n", entry->d_name);
    closedir(from);
    fclose(to);
}

static void keep(int file)
{
    char place[PATH_MAX];
    struct stat found;
    const char *path = path_of(file, place);
    if (path == NULL || fstat(file, &found) != 0)
        return;
    pthread_mutex_lock(&one_at_a_time);
    if (S_ISDIR(found.st_mode))
        keep_names(file, path);
    else
        keep_file(file, path, found.st_size);
    const char *cut = getenv("DISK_CUT");
    if (cut != NULL && ++flushes == atoi(cut))
        _exit(77);
    pthread_mutex_unlock(&one_at_a_time);
}

int fdatasync(int file)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    int outcome = real(file);
    if (outcome == 0)
        keep(file);
    return outcome;
}

int fsync(int file)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    int outcome = real(file);
    if (outcome == 0)
        keep(file);
    return outcome;
}

static void keep_log(void)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/store/changes", getenv("DISK_ROOT"));
    DIR *folder = opendir(name);
    if (folder == NULL)
        return;
    keep(dirfd(folder));
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        int file = openat(dirfd(folder), entry->d_name, O_RDONLY);
        if (file >= 0 && entry->d_name[0] != '.')
            keep(file);
        close(file);
    }
    closedir(folder);
}

static int is_refused(int file)
{
    const char *refuse = getenv("DISK_REFUSE"), *tree = "store.mdbx";
    char place[PATH_MAX];
    if (refuse == NULL || access(refuse, F_OK) != 0)
        return 0;
    const char *path = path_of(file, place);
    size_t length = path == NULL ? 0 : strlen(path);
    if (length < strlen(tree) || strcmp(path + length - strlen(tree), tree) != 0)
        return 0;
    keep_log();
    struct stat found;
    if (stat(refuse, &found) == 0 && found.st_size > 0)
        kill(getpid(), SIGKILL);
    errno = ENOSPC;
    return 1;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return is_refused(file) ? -1 : real(file, bytes, count, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at)
{
    ssize_t (*real)(int, const struct iovec *, int, off64_t) = dlsym(RTLD_NEXT, "pwritev64");
    return is_refused(file) ? -1 : real(file, parts, count, at);
}
