/* y4m.c: renders a composition, a title that moves over a coloured picture, into a YUV4MPEG2 file.
 *
 * First the composition is read, then come the picture, the file, and what dead processes left. */
#include "y4m.h"

#include "font5x7.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4)))
static y4m_result say(y4m_error *error, y4m_result result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return result;
}

/* ---- the composition -------------------------------------------------------------------------------- */

static const struct number {
    const char *key;
    size_t offset;
    int min, max, even;
} numbers[] = {
    {"width",          offsetof(y4m_composition, width),          16, 1920,  1},  /* C420: a colour for 2 x 2 */
    {"height",         offsetof(y4m_composition, height),         16, 1920,  1},
    {"frames",         offsetof(y4m_composition, frames),         1,  10000, 0},
    {"frame_delay_ms", offsetof(y4m_composition, frame_delay_ms), 0,  10000, 0},
};

static y4m_result read_number(const json_t *from, const struct number *n, y4m_composition *out, y4m_error *error)
{
    const json_t *value = json_object_get(from, n->key);
    json_int_t is = json_integer_value(value);
    int as_int;

    if (value == NULL)
        return Y4M_OK;
    if (!json_is_integer(value) || is < n->min || is > n->max || (n->even && is % 2 != 0))
        return say(error, Y4M_BAD, "%s must be %s number from %d to %d", n->key, n->even ? "an even" : "a whole",
                   n->min, n->max);
    as_int = (int)is;
    memcpy((char *)out + n->offset, &as_int, sizeof as_int);
    return Y4M_OK;
}

static y4m_result read_fps(const json_t *from, y4m_composition *out, y4m_error *error)
{
    const json_t *fps = json_object_get(from, "fps");
    const json_t *num = json_is_array(fps) ? json_array_get(fps, 0) : fps;
    const json_t *den = json_is_array(fps) ? json_array_get(fps, 1) : NULL;
    json_int_t n = json_integer_value(num), d = json_is_array(fps) ? json_integer_value(den) : 1;

    if (fps == NULL)
        return Y4M_OK;
    if (d < 1 || d > 1000000 || n < d || n > 240 * d || (json_is_array(fps) && json_array_size(fps) != 2))
        return say(error, Y4M_BAD, "fps must be a number from 1 to 240, or two like [30000, 1001]");
    out->fps_num = (int)n;
    out->fps_den = (int)d;
    return Y4M_OK;
}

static y4m_result read_color(const json_t *value, const char *what, y4m_color *out, y4m_error *error)
{
    const char *text = json_string_value(value);
    unsigned r, g, b;

    if (text == NULL || strlen(text) != 7 || strspn(text + 1, "0123456789abcdefABCDEF") != 6
        || sscanf(text, "#%2x%2x%2x", &r, &g, &b) != 3)
        return say(error, Y4M_BAD, "%s must be a colour like \"#0b1d51\"", what);
    *out = (y4m_color){(uint8_t)r, (uint8_t)g, (uint8_t)b};
    return Y4M_OK;
}

static y4m_result read_colors(const json_t *from, y4m_composition *out, y4m_error *error)
{
    const json_t *background = json_object_get(from, "background"), *ink = json_object_get(from, "color");
    y4m_result result = Y4M_OK;

    if (background != NULL && json_array_size(background) != 2)
        return say(error, Y4M_BAD, "background must be two colours like [\"#0b1d51\", \"#725ac1\"]");
    if (background != NULL)
        result = read_color(json_array_get(background, 0), "background", &out->top, error);
    if (background != NULL && result == Y4M_OK)
        result = read_color(json_array_get(background, 1), "background", &out->bottom, error);
    if (ink != NULL && result == Y4M_OK)
        result = read_color(ink, "color", &out->ink, error);
    return result;
}

/* Into the font's characters, one for each of the title's, whatever language it is in. */
static y4m_result read_title(const json_t *from, y4m_composition *out, y4m_error *error)
{
    const char *text = json_string_value(json_object_get(from, "title"));
    size_t n = 0;

    if (text == NULL || *text == '\0')
        return say(error, Y4M_BAD, "title must be a text");
    for (; *text != '\0'; text++) {
        if (((unsigned char)*text & 0xC0) == 0x80)
            continue;                       /* not the first byte of a UTF-8 character */
        if (n == Y4M_TITLE_MAX)
            return say(error, Y4M_BAD, "title is longer than %d characters", Y4M_TITLE_MAX);
        out->title[n] = *text;
        if (*text >= 'a' && *text <= 'z')
            out->title[n] = (char)(*text - 'a' + 'A');
        n++;
    }
    out->title[n] = '\0';
    return Y4M_OK;
}

/* A misspelt key would be a video that is silently not what was ordered. */
static y4m_result check_keys(json_t *from, y4m_error *error)
{
    static const char *const known[] = {"title", "width", "height", "frames", "fps", "background", "color",
                                        "frame_delay_ms", "crash"};
    const json_t *crash = json_object_get(from, "crash");
    const char *key;
    json_t *value;

    json_object_foreach(from, key, value) {
        size_t i = 0;

        while (i < sizeof known / sizeof *known && strcmp(key, known[i]) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return say(error, Y4M_BAD, "a composition has no \"%.40s\"", key);
    }
    if (crash != NULL && !json_is_boolean(crash))
        return say(error, Y4M_BAD, "crash must be true or false");
    return Y4M_OK;
}

static int64_t frame_bytes(const y4m_composition *c)
{
    return (int64_t)c->width * c->height * 3 / 2;
}

y4m_result y4m_parse(const char *json, size_t len, y4m_composition *out, y4m_error *error)
{
    json_error_t wrong;
    json_t *from = json_loadb(json, len, JSON_REJECT_DUPLICATES, &wrong);
    y4m_result result = Y4M_OK;

    *out = (y4m_composition){.width = 320, .height = 180, .frames = 48, .fps_num = 25, .fps_den = 1,
                             .top = {0x0B, 0x1D, 0x51}, .bottom = {0x72, 0x5A, 0xC1}, .ink = {0xFF, 0xFF, 0xFF}};
    if (from == NULL)
        return say(error, Y4M_BAD, "not JSON: %.120s at byte %d", wrong.text, wrong.position);
    if (!json_is_object(from))
        result = say(error, Y4M_BAD, "a composition must be a JSON object");
    if (result == Y4M_OK)
        result = check_keys(from, error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && result == Y4M_OK; i++)
        result = read_number(from, &numbers[i], out, error);
    if (result == Y4M_OK)
        result = read_fps(from, out, error);
    if (result == Y4M_OK)
        result = read_colors(from, out, error);
    if (result == Y4M_OK)
        result = read_title(from, out, error);
    if (result == Y4M_OK && frame_bytes(out) * out->frames > Y4M_BYTES_MAX)
        result = say(error, Y4M_BAD, "%d frames of %dx%d are more than the %d MB that a video may have",
                     out->frames, out->width, out->height, (int)(Y4M_BYTES_MAX >> 20));
    out->crash = json_is_true(json_object_get(from, "crash"));
    json_decref(from);
    return result;
}

y4m_result y4m_check_name(const char *name, y4m_error *error)
{
    size_t len = strlen(name);

    if (len > Y4M_NAME_MAX)
        return say(error, Y4M_BAD, "the file name is longer than %d bytes", Y4M_NAME_MAX);
    /* Another ending could be somebody else's file, the queue's own database among them. */
    if (len < 5 || strcmp(name + len - 4, ".y4m") != 0)
        return say(error, Y4M_BAD, "the file name must end in .y4m");
    if (name[0] == '.' || strchr(name, '/') != NULL)
        return say(error, Y4M_BAD, "the file name must not lead out of its folder or begin with a dot");
    for (const char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return say(error, Y4M_BAD, "the file name has a control character");
    return Y4M_OK;
}

/* ---- the picture ------------------------------------------------------------------------------------ */

typedef struct yuv {
    uint8_t y, u, v;
} yuv;

typedef struct canvas {
    int width, height;
    yuv *dots;                              /* a colour a dot; only the file has one for four */
} canvas;

/* ITU-R BT.601 in its limited range, which is what players take a .y4m for. */
static yuv to_yuv(y4m_color c)
{
    int r = c.r, g = c.g, b = c.b, half = 128 << 8;

    return (yuv){(uint8_t)(16 + ((66 * r + 129 * g + 25 * b + 128) >> 8)),
                 (uint8_t)((half - 38 * r - 74 * g + 112 * b + 128) >> 8),
                 (uint8_t)((half + 112 * r - 94 * g - 18 * b + 128) >> 8)};
}

static uint8_t between(int from, int to, int i, int n)
{
    return (uint8_t)(from + (to - from) * i / n);
}

static void draw_background(canvas *to, const y4m_composition *c)
{
    for (int y = 0; y < to->height; y++) {
        yuv color = to_yuv((y4m_color){between(c->top.r, c->bottom.r, y, to->height),
                                       between(c->top.g, c->bottom.g, y, to->height),
                                       between(c->top.b, c->bottom.b, y, to->height)});

        for (int x = 0; x < to->width; x++)
            to->dots[(size_t)y * (size_t)to->width + (size_t)x] = color;
    }
}

/* Cuts at the edges: a title may be wider than its picture. */
static void draw_box(canvas *to, int left, int top, int width, int height, yuv color)
{
    int right = left + width < to->width ? left + width : to->width;
    int bottom = top + height < to->height ? top + height : to->height;

    for (int y = top > 0 ? top : 0; y < bottom; y++)
        for (int x = left > 0 ? left : 0; x < right; x++)
            to->dots[(size_t)y * (size_t)to->width + (size_t)x] = color;
}

static void draw_text(canvas *to, const char *text, int left, int top, int scale, yuv color)
{
    for (; *text != '\0'; text++, left += (FONT_WIDTH + 1) * scale) {
        const char *dots = *text >= FONT_FIRST && *text <= FONT_LAST ? font5x7[*text - FONT_FIRST] : font5x7_other;

        for (int row = 0; row < FONT_HEIGHT; row++)
            for (int column = 0; column < FONT_WIDTH; column++)
                if (dots[row * (FONT_WIDTH + 1) + column] == '#')
                    draw_box(to, left + column * scale, top + row * scale, scale, scale, color);
    }
}

/* The title crosses the picture once from left to right, and goes down and up twice on its way; one that is too
 * wide is read from its beginning to its end by the same rule. A bar at the bottom grows with the time. */
static void draw_frame(canvas *to, const y4m_composition *c, int frame)
{
    const yuv ink = to_yuv(c->ink), black = {16, 128, 128}, white = {235, 128, 128};
    const yuv shadow = ink.y > 96 ? black : white;
    int letters = (int)strlen(c->title), dots_wide = letters * (FONT_WIDTH + 1) - 1;
    int by_width = to->width * 8 / 10 / dots_wide, by_height = to->height / 4 / FONT_HEIGHT;
    int fit = by_width < by_height ? by_width : by_height, scale = fit > 1 ? fit : 1;
    int bar = to->height / 36 + 1, steps = c->frames > 1 ? c->frames - 1 : 1;
    int room_x = to->width - dots_wide * scale, room_y = to->height - bar - (FONT_HEIGHT + 1) * scale;
    int quarter = frame * 4 % (2 * steps), up_and_down = quarter < steps ? quarter : 2 * steps - quarter;
    int left = room_x * frame / steps, top = room_y * up_and_down / steps;

    draw_background(to, c);
    draw_text(to, c->title, left + (scale + 1) / 2, top + (scale + 1) / 2, scale, shadow);
    draw_text(to, c->title, left, top, scale, ink);
    draw_box(to, 0, to->height - bar, to->width * (frame + 1) / c->frames, bar, ink);
}

/* Three planes, as the file has them: brightness a dot, then the two colours, each the mean of 2 x 2 dots. */
static void to_planes(const canvas *from, uint8_t *out)
{
    size_t width = (size_t)from->width, size = width * (size_t)from->height;
    uint8_t *u = out + size, *v = u + size / 4;

    for (size_t i = 0; i < size; i++)
        out[i] = from->dots[i].y;
    for (size_t y = 0; y < (size_t)from->height; y += 2) {
        for (size_t x = 0; x < width; x += 2) {
            const yuv *above = &from->dots[y * width + x], *below = above + width;

            *u++ = (uint8_t)((above[0].u + above[1].u + below[0].u + below[1].u + 2) / 4);
            *v++ = (uint8_t)((above[0].v + above[1].v + below[0].v + below[1].v + 2) / 4);
        }
    }
}

/* ---- the file --------------------------------------------------------------------------------------- */

/* Opens a temporary file of our own and locks it, for y4m_sweep() to see that we live. A sweep may come between
 * the two and take the file: then no name leads to it any more, and we make another. Whoever removes or renames
 * a temporary file holds its lock, so that a name and a locked file that has one belong together. */
static int open_temporary(int folder, const char *temporary)
{
    for (;;) {
        int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), locked = -1;
        struct stat at;

        if (fd < 0)
            return -1;
        while ((locked = flock(fd, LOCK_EX)) != 0 && errno == EINTR)
            ;
        if (locked == 0 && fstat(fd, &at) == 0 && at.st_nlink > 0)
            return fd;
        close(fd);
        if (locked != 0) {
            unlinkat(folder, temporary, 0);
            return -1;
        }
    }
}

static void pause_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    if (ms > 0)
        nanosleep(&t, NULL);                /* a signal ends it early: whoever stops us need not wait */
}

static y4m_result write_frames(const y4m_composition *c, FILE *to, y4m_frame_fn after_frame, void *arg,
                               y4m_error *error)
{
    size_t dots = (size_t)c->width * (size_t)c->height, bytes = (size_t)frame_bytes(c);
    canvas picture = {.width = c->width, .height = c->height, .dots = calloc(dots, sizeof(yuv))};
    uint8_t *planes = malloc(bytes);
    y4m_result result = Y4M_OK;

    if (picture.dots == NULL || planes == NULL)
        result = say(error, Y4M_FAILED, "out of memory");
    else
        fprintf(to, "YUV4MPEG2 W%d H%d F%d:%d Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n", c->width, c->height,
                c->fps_num, c->fps_den);
    for (int frame = 0; frame < c->frames && result == Y4M_OK; frame++) {
        draw_frame(&picture, c, frame);
        to_planes(&picture, planes);
        pause_ms(c->frame_delay_ms);
        if (c->crash && frame >= c->frames / 2)
            abort();
        if (fputs("FRAME\n", to) == EOF || fwrite(planes, 1, bytes, to) != bytes || fflush(to) != 0)
            result = say(error, Y4M_FAILED, "frame %d: %s", frame + 1, strerror(errno));
        else if (frame + 1 == c->frames && fsync(fileno(to)) != 0)
            result = say(error, Y4M_FAILED, "fsync: %s", strerror(errno));
        else if (after_frame != NULL && after_frame(arg, frame + 1, c->frames) != 0)
            result = say(error, Y4M_STOPPED, "stopped after frame %d of %d", frame + 1, c->frames);
    }
    free(picture.dots);
    free(planes);
    return result;
}

y4m_result y4m_render(const y4m_composition *c, const char *folder, const char *name, const char *tag,
                      y4m_frame_fn after_frame, void *arg, y4m_error *error)
{
    char temporary[256];
    int dir = -1, fd = -1, len = snprintf(temporary, sizeof temporary, ".%s.%s" Y4M_TEMPORARY, name, tag);
    FILE *to = NULL;
    y4m_result result = y4m_check_name(name, error);

    if (result != Y4M_OK)
        return result;
    if (len < 0 || len >= (int)sizeof temporary || strchr(tag, '/') != NULL)
        return say(error, Y4M_BAD, "the temporary file's name is too long or has a slash");
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return say(error, Y4M_FAILED, "folder %.150s: %s", folder, strerror(errno));
    fd = open_temporary(dir, temporary);
    to = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (to == NULL)
        result = say(error, Y4M_FAILED, "temporary file: %s", strerror(errno));
    else
        result = write_frames(c, to, after_frame, arg, error);

    /* All of it is on the disk: only now it gets its name, and then the name is made to stay as well. */
    if (result == Y4M_OK && renameat(dir, temporary, dir, name) != 0)
        result = say(error, Y4M_FAILED, "rename: %s", strerror(errno));
    else if (result == Y4M_OK && fsync(dir) != 0)
        result = say(error, Y4M_FAILED, "fsync of the folder: %s", strerror(errno));
    if (result != Y4M_OK && fd >= 0)
        unlinkat(dir, temporary, 0);        /* before the lock goes: the name is surely ours */
    if (to != NULL)
        fclose(to);
    else if (fd >= 0)
        close(fd);
    close(dir);
    return result;
}

/* ---- what dead processes left ----------------------------------------------------------------------- */

void y4m_sweep(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name), end = strlen(Y4M_TEMPORARY);
        struct stat at;
        int fd = -1;

        if (entry->d_name[0] == '.' && len > end && strcmp(entry->d_name + len - end, Y4M_TEMPORARY) == 0)
            fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &at) == 0 && at.st_nlink > 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (dir != NULL)
        closedir(dir);
}
