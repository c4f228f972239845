/*
 * Makes any file called renderD<number> pass as the render node of a GPU.
 *
 * libva asks libdrm what kind of node a descriptor is, and libdrm looks into
 * /sys, where a stand-in has no entry.  This library answers in its place when
 * it is preloaded (LD_PRELOAD); a name does, so that tests need neither the
 * right to make device files nor a kernel that has any.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NODE_RENDER = 2 };           /* DRM_NODE_RENDER of xf86drm.h */

__attribute__((visibility("default")))
int drmGetNodeTypeFromFd(int fd)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "drmGetNodeTypeFromFd");
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
