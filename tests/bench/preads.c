/*
 * What the sampler is compared with: only the preads of a sweep, and nothing made of them.
 *
 *     preads ROOT LIST_FILE ROUNDS [--open-each | --each-second]
 *
 * LIST_FILE holds one cgroup path a line, relative to ROOT. Of each the program reads cpu.stat, cpu.pressure and
 * memory.current, where they are there, after one clock_gettime: on kept descriptors, or, with --open-each, by opening
 * and closing each file at each read. With --each-second a round begins each second, else as soon as the one before is
 * over. It prints one JSON object; times are nanoseconds of one sweep over the whole list.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 3, BUFFER_BYTES = 16384 };

static const char *const NAMES[FILES] = {"cpu.stat", "cpu.pressure", "memory.current"};

typedef struct group {
    char *path;    /* ROOT/relative */
    int fd[FILES]; /* -1: the file is not there */
} group;

typedef struct group_list {
    group *items;
    size_t count;
} group_list;

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int die(const char *what)
{
    perror(what);
    exit(1);
}

static int open_file(const group *g, int file)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", g->path, NAMES[file]) >= (int)sizeof(path))
        die("a path is too long");
    return open(path, O_RDONLY | O_CLOEXEC);
}

static group_list read_list(const char *root, const char *list_file)
{
    group_list list = {NULL, 0};
    char line[PATH_MAX];
    FILE *stream = fopen(list_file, "re");

    if (stream == NULL)
        die(list_file);
    while (fgets(line, sizeof(line), stream) != NULL) {
        size_t size = strlen(root) + strlen(line) + 2;
        group *grown = realloc(list.items, (list.count + 1) * sizeof(*grown));

        if (grown == NULL)
            die("realloc");
        list.items = grown;
        line[strcspn(line, "\n")] = '\0';
        grown[list.count].path = malloc(size);
        if (grown[list.count].path == NULL)
            die("malloc");
        snprintf(grown[list.count].path, size, "%s/%s", root, line);
        for (int file = 0; file < FILES; file++)
            grown[list.count].fd[file] = open_file(&grown[list.count], file);
        if (grown[list.count].fd[0] < 0)
            die(grown[list.count].path);
        list.count++;
    }
    fclose(stream);
    return list;
}

/* One sweep; returns the bytes read, so that nothing can be optimised away and the caller sees that there were some. */
static uint64_t sweep(const group_list *list, int open_each, uint64_t *last_stamp)
{
    static char buffer[BUFFER_BYTES];
    uint64_t bytes = 0;

    for (size_t i = 0; i < list->count; i++) {
        const group *g = &list->items[i];

        *last_stamp = monotonic_ns();
        for (int file = 0; file < FILES; file++) {
            int fd = g->fd[file];
            ssize_t n;

            if (fd < 0)
                continue;
            if (open_each && (fd = open_file(g, file)) < 0)
                die(g->path);
            n = pread(fd, buffer, sizeof(buffer), 0);
            if (open_each)
                close(fd);
            if (n <= 0)
                die(g->path);
            bytes += (uint64_t)n;
        }
    }
    return bytes;
}

/* Absolute moments, so that the time which a round takes does not add up. */
static void wait_until_ns(uint64_t due_ns)
{
    struct timespec due = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        ;
}

static int compare_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    int open_each = argc == 5 && strcmp(argv[4], "--open-each") == 0;
    int each_second = argc == 5 && strcmp(argv[4], "--each-second") == 0;
    struct rlimit files;
    group_list list;
    uint64_t *times;
    uint64_t bytes = 0;
    uint64_t stamp = 0;
    uint64_t due_ns;
    long rounds;

    if (argc < 4 || argc > 5 || (argc == 5 && !open_each && !each_second) || (rounds = strtol(argv[3], NULL, 10)) < 1) {
        fprintf(stderr, "usage: preads ROOT LIST_FILE ROUNDS [--open-each | --each-second]\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    list = read_list(argv[1], argv[2]);
    times = calloc((size_t)rounds, sizeof(*times));
    if (list.count == 0 || times == NULL)
        die("nothing to read");
    due_ns = monotonic_ns();
    for (long round = 0; round < rounds; round++) {
        uint64_t start;

        if (each_second)
            wait_until_ns(due_ns + (uint64_t)round * 1000000000u);
        start = monotonic_ns();
        bytes += sweep(&list, open_each, &stamp);
        times[round] = monotonic_ns() - start;
    }
    qsort(times, (size_t)rounds, sizeof(*times), compare_u64);
    printf("{\"groups\": %zu, \"rounds\": %ld, \"open_each\": %s, \"min_ns\": %" PRIu64 ", \"median_ns\": %" PRIu64
           ", \"bytes\": %" PRIu64 "}\n",
           list.count, rounds, open_each ? "true" : "false", times[0], times[rounds / 2], bytes);
    return 0;
}
