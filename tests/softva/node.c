/*
 * Makes files pass as GPUs, for programs that have it preloaded (LD_PRELOAD), so that
 * tests need neither the right to make device files nor a kernel that has any.
 *
 * libva asks libdrm what kind of node a descriptor is, and libdrm looks into /sys,
 * where a stand-in has no entry: any file called renderD<number> is a render node here.
 * Intel's VPL runtime reads the vendor and the device of each node from /sys: with
 * SOFTVA_ROOT set, it reads below that folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
int drmGetNodeTypeFromFd(int fd);

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { NODE_RENDER = 2 };           /* DRM_NODE_RENDER of xf86drm.h */

EXPORT int drmGetNodeTypeFromFd(int fd)
{
    int (*next)(int) = NEXT(drmGetNodeTypeFromFd);
    char link[32], path[PATH_MAX], *name;
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = 0;
    name = strrchr(path, '/');
    if (name && !strncmp(name, "/renderD", 8))
        return NODE_RENDER;
    return next ? next(fd) : -1;
}

/* Where the file really is. `text` has room for a path. */
static const char *redirected(const char *path, char *text)
{
    static const char *const folders[] = { "/sys/class/drm/renderD", "/dev/dri/renderD" };
    const char *root = getenv("SOFTVA_ROOT");

    for (unsigned i = 0; root && i < sizeof(folders) / sizeof(folders[0]); i++)
        if (!strncmp(path, folders[i], strlen(folders[i]))) {
            snprintf(text, PATH_MAX, "%s%s", root, path);
            return text;
        }
    return path;
}

#define OPEN(name)                                                              \
    EXPORT int name(const char *path, int flags, ...)                           \
    {                                                                           \
        char text[PATH_MAX];                                                    \
        va_list ap;                                                             \
        mode_t mode = 0;                                                        \
                                                                                \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                  \
            va_start(ap, flags);                                                \
            mode = va_arg(ap, mode_t);                                          \
            va_end(ap);                                                         \
        }                                                                       \
        return NEXT(name)(redirected(path, text), flags, mode);                 \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                             \
    EXPORT FILE *name(const char *path, const char *mode)                       \
    {                                                                           \
        char text[PATH_MAX];                                                    \
                                                                                \
        return NEXT(name)(redirected(path, text), mode);                        \
    }
FOPEN(fopen)
FOPEN(fopen64)
