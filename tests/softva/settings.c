/*
 * What makes the driver useful in tests: settings (for all devices, or for one
 * of them), the log, and faults on request.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <va/va_drmcommon.h>

#include "softva.h"

/* The name that the device was opened by: of a render node the last part of its
 * path, of an X display nothing. */
void sv_name_device(struct sv_driver *drv, VADriverContextP ctx)
{
    const struct drm_state *drm = ctx->drm_state;
    char link[32], path[PATH_MAX], *name;
    ssize_t len;

    if ((ctx->display_type & VA_DISPLAY_MAJOR_MASK) != VA_DISPLAY_DRM || !drm)
        return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", drm->fd);
    len = readlink(link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = 0;
    name = strrchr(path, '/');
    snprintf(drv->node, sizeof(drv->node), "%s", name ? name + 1 : "");
}

static size_t read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : 0;

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    return len > 0 ? len : 0;
}

/* The setting of this device: the line "name=value" of the file SOFTVA_CONFIG/node
 * or else the environment's variable.  Looked at on every call, so that a test may
 * change it while the device works.  NULL when it is set nowhere or empty. */
const char *sv_setting(const struct sv_driver *drv, const char *name, struct sv_text *text)
{
    const char *folder = getenv("SOFTVA_CONFIG"), *value = getenv(name);

    if (folder && *folder && drv->node[0]) {
        char path[PATH_MAX], *line, *rest;

        snprintf(path, sizeof(path), "%s/%s", folder, drv->node);
        read_file(path, text->text, sizeof(text->text));
        for (line = strtok_r(text->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            size_t len = strlen(name);

            if (!strncmp(line, name, len) && line[len] == '=')
                return line[len + 1] ? line + len + 1 : NULL;
        }
    }
    return value && *value ? value : NULL;
}

long sv_setting_number(const struct sv_driver *drv, const char *name, long otherwise)
{
    struct sv_text text;
    const char *value = sv_setting(drv, name, &text);

    return value ? strtol(value, NULL, 0) : otherwise;
}

/* Is the word in the comma-separated list that the setting holds? */
bool sv_listed(const struct sv_driver *drv, const char *name, const char *word)
{
    struct sv_text text;
    const char *p = sv_setting(drv, name, &text);
    size_t n = strlen(word);

    while (p && *p) {
        size_t len = strcspn(p, ", ");

        if (len == n && !strncmp(p, word, n))
            return true;
        p += len;
        p += strspn(p, ", ");
    }
    return false;
}

/* One write() per line to an O_APPEND descriptor, so that the lines of several
 * threads and processes never mix. */
void sv_log(const struct sv_driver *drv, const char *fmt, ...)
{
    const char *path = getenv("SOFTVA_LOG");
    char line[512];
    struct timespec ts;
    int n, fd;
    va_list ap;

    if (!path || !*path)
        return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    n = snprintf(line, sizeof(line), "%ld.%03ld pid=%d dev=%s ", (long)ts.tv_sec,
                 ts.tv_nsec / 1000000, getpid(), drv->node[0] ? drv->node : "-");
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
    va_end(ap);
    n = SV_MIN(n, (int)sizeof(line) - 2);
    line[n++] = '\n';
    /* "-" is for processes that may open no file */
    fd = strcmp(path, "-") ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : STDERR_FILENO;
    if (fd < 0)
        return;
    if (write(fd, line, n) < 0)
        n = 0;                      /* a test log is not worth an error */
    if (fd != STDERR_FILENO)
        close(fd);
}

static bool fault_in(const char *text, const char *key, unsigned n)
{
    size_t klen = strlen(key);

    while (*text) {
        size_t len = strcspn(text, ", \t\r\n");

        if (len > klen + 1 && !strncmp(text, key, klen) && text[klen] == ':') {
            const char *num = text + klen + 1;

            if (*num == '*')
                return true;
            if (isdigit((unsigned char)*num)) {
                char *end;
                unsigned long at = strtoul(num, &end, 10);

                if (n == at || (*end == '+' && n > at))
                    return true;
            }
        }
        text += len;
        text += strspn(text, ", \t\r\n");
    }
    return false;
}

/* Is event number n (from 1) of this kind to fail?  Rules are "key:N" (just the
 * Nth), "key:N+" (the Nth and all later ones) or "key:*", in SOFTVA_FAIL and in
 * the file named by SOFTVA_CONTROL, both looked at on every call. */
bool sv_fault(const struct sv_driver *drv, const char *key, unsigned n)
{
    struct sv_text text;
    const char *rules = sv_setting(drv, "SOFTVA_FAIL", &text);
    bool hit = rules && fault_in(rules, key, n);

    if (!hit) {
        const char *path = sv_setting(drv, "SOFTVA_CONTROL", &text);
        struct sv_text control;

        hit = path && read_file(path, control.text, sizeof(control.text)) && fault_in(control.text, key, n);
    }
    if (hit)
        sv_log(drv, "fault %s n=%u", key, n);
    return hit;
}
