/* y4m.h: a small video renderer for the examples: a composition in JSON becomes a YUV4MPEG2 (.y4m) file.
 *
 * It stands for the video library of a real program, and knows nothing of the queue. */
#ifndef Y4M_H
#define Y4M_H

#include <stddef.h>
#include <stdint.h>

#define Y4M_TITLE_MAX   100                 /* characters */
#define Y4M_NAME_MAX    150                 /* bytes of a file's name */
#define Y4M_BYTES_MAX   INT64_C(1073741824) /* of a video */
#define Y4M_TEMPORARY   ".part"             /* a video that is being made is ".NAME.TAG.part" */

typedef struct y4m_color {
    uint8_t r, g, b;
} y4m_color;

/* {"title": "HELLO, WORLD", "width": 320, "height": 180, "frames": 48, "fps": 25,
 *  "background": ["#0b1d51", "#725ac1"], "color": "#ffffff"}
 *
 * Only the title is required; the rest are the defaults. fps is a whole number or [30000, 1001]. The
 * background goes from its first colour at the top to its second at the bottom. Two more imitate a video
 * library on a bad day: "frame_delay_ms" makes it slow, and "crash": true makes it take its process down. */
typedef struct y4m_composition {
    char title[Y4M_TITLE_MAX + 1];          /* in the font's characters: upper case */
    int width, height, frames, frame_delay_ms;
    int fps_num, fps_den;
    y4m_color top, bottom, ink;
    int crash;
} y4m_composition;

typedef struct y4m_error {
    char text[256];
} y4m_error;

typedef enum y4m_result {
    Y4M_OK = 0,
    Y4M_BAD = 1,                            /* the composition or the name can never work */
    Y4M_STOPPED = 2,                        /* the callback ended it */
    Y4M_FAILED = 3                          /* the disk is full, a folder is missing, ...: may work another time */
} y4m_result;

/* Called after each frame, the last time (done == total) when all of the video is on the disk and just before
 * it gets its name. Returns 0 to go on, anything else to throw the video away. */
typedef int (*y4m_frame_fn)(void *arg, int done, int total);

/* Reads and checks a composition. Returns OK, or BAD with the reason in *error. */
y4m_result y4m_parse(const char *json, size_t len, y4m_composition *out, y4m_error *error);

/* Is this a video's file name that stays in its folder? Returns OK, or BAD with the reason in *error. */
y4m_result y4m_check_name(const char *name, y4m_error *error);

/* Renders into folder/name. All or nothing: the video is made under a temporary name and renamed when every
 * byte is on the disk; what was there under the name is replaced. `tag` tells this attempt's temporary file
 * from all others. Anything but OK leaves no temporary file. */
y4m_result y4m_render(const y4m_composition *c, const char *folder, const char *name, const char *tag,
                      y4m_frame_fn after_frame, void *arg, y4m_error *error);

/* Removes the temporary files of processes that have died; those of living ones are locked, and left. */
void y4m_sweep(const char *folder);

#endif
