/* main.c: runs a fuzz target over files, without libFuzzer: the corpus as a test.  fuzz_NAME FILE|FOLDER... */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static size_t files;

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    size_t size = (size_t)info.st_size;
    uint8_t *data = fuzz_malloc(size ? size : 1);   /* just so large, for whoever watches for reads beyond it */
    bool whole = fread(data, 1, size, file) == size;
    fclose(file);
    /* The last name that is seen before a target aborts is the input's. */
    if (getenv("FUZZ_VERBOSE"))
        fprintf(stderr, "%s\n", path);
    if (whole)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    files++;
    return !whole;
}

static int run_folder(const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort), failed = n < 0;
    if (failed)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            failed |= run_file(file);
        free(names[i]);
    }
    if (!failed)
        free(names);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        struct stat info;
        failed |= stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    if (files == 0 || argc < 2)
        fprintf(stderr, "usage: fuzz_NAME FILE|FOLDER...\n");
    else
        printf("%zu inputs\n", files);
    return failed || files == 0;
}
