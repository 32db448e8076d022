/* Simulated disk for tests (LD_PRELOAD).
 *
 * Copies everything below DISK_ROOT at the time it is flushed: a file to DISK_FLUSHED/files/PATH, the names in a folder as lines of
 * DISK_FLUSHED/names/PATH, with slashes written as plus signs. The program exits right after flush number DISK_CUT.
 * While the file DISK_REFUSE exists, some calls fail, depending on what it contains:
 *   tree   writes to a store's tree; everything written to the log has reached the disk by then, as it may at any time
 *   kill   the same, and the program is killed
 *   log    writes to the log: the last 8 bytes of each
 *   mark   writes of 8 bytes to the log: those that mark its end
 *   cut    truncating the log
 *   flush  flushing the log
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

/* Whether calls of that kind on files whose paths end so fail. */
static int is_refused(const char *kind, int file, const char *end)
{
    const char *refuse = getenv("DISK_REFUSE");
    char place[PATH_MAX], kinds[64] = "";
    FILE *from = refuse == NULL ? NULL : fopen(refuse, "r");
    if (from == NULL)
        return 0;
    kinds[fread(kinds, 1, sizeof kinds - 1, from)] = 0;
    fclose(from);
    const char *path = path_of(file, place);
    size_t length = path == NULL ? 0 : strlen(path);
    if (strstr(kinds, kind) == NULL || length < strlen(end) || strcmp(path + length - strlen(end), end) != 0)
        return 0;
    errno = ENOSPC;
    return 1;
}

int fdatasync(int file)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    if (is_refused("flush", file, ".log"))
        return -1;
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

static int is_tree_refused(int file)
{
    const char *tree = "store.mdbx";
    int is_killed = is_refused("kill", file, tree);
    if (!is_killed && !is_refused("tree", file, tree))
        return 0;
    keep_log();
    if (is_killed)
        kill(getpid(), SIGKILL);
    errno = ENOSPC;
    return 1;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    if (is_refused("log", file, ".log"))
        return count > 8 ? real(file, bytes, count - 8, at) : -1;
    if (count == 8 && is_refused("mark", file, ".log"))
        return -1;
    return is_tree_refused(file) ? -1 : real(file, bytes, count, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at)
{
    ssize_t (*real)(int, const struct iovec *, int, off64_t) = dlsym(RTLD_NEXT, "pwritev64");
    return is_tree_refused(file) ? -1 : real(file, parts, count, at);
}

int ftruncate64(int file, off64_t length)
{
    int (*real)(int, off64_t) = dlsym(RTLD_NEXT, "ftruncate64");
    return is_refused("cut", file, ".log") ? -1 : real(file, length);
}
