/*
 * Tests of sampler.c from the inside: it is included here, so that static functions are in reach and the calls to the
 * kernel go through the hooks below, which can fail, cut and count as a temporary directory cannot.
 *
 *     test_sampler SCRATCH_DIRECTORY SEED_FILE...
 *
 * Exit code 0 and one line of counts, or one line per failed check and exit code 1.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- hooks ---- */

enum { FD_MAX = 4096 };

static char opened_names[FD_MAX][32]; /* last component by descriptor */
static const char *failing_name;      /* pread of this file fails with failing_errno */
static int failing_errno;
static const char *failing_open_name; /* openat of this file fails with failing_open_errno */
static int failing_open_errno;
static unsigned failing_opens_left; /* so often; UINT_MAX: always */
static const char *cut_name;        /* pread of this file gives cut_length bytes at most */
static size_t cut_length;
static const char *flood_name; /* pread of this file fills the whole buffer, with empty lines behind its text */
static unsigned interruptions; /* so many preads fail with EINTR first */
static unsigned opens;
static unsigned reads_of_memory_stat;
static int64_t fake_ns;            /* CLOCK_MONOTONIC, which moves when somebody waits; 0: the real one */
static unsigned interrupted_waits; /* so many waits end with EINTR, a nanosecond later */

static ssize_t hooked_pread(int fd, void *buffer, size_t size, off_t offset)
{
    const char *name = opened_names[fd];
    ssize_t n;

    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    if (failing_name != NULL && strcmp(name, failing_name) == 0) {
        errno = failing_errno;
        return -1;
    }
    if (strcmp(name, "memory.stat") == 0)
        reads_of_memory_stat++;
    n = pread(fd, buffer, size, offset);
    if (flood_name != NULL && strcmp(name, flood_name) == 0) {
        memset((char *)buffer + n, '\n', size - (size_t)n);
        return (ssize_t)size;
    }
    if (cut_name != NULL && strcmp(name, cut_name) == 0 && n > (ssize_t)cut_length)
        n = (ssize_t)cut_length;
    return n;
}

static int hooked_openat(int directory, const char *path, int flags)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    int fd;

    opens++;
    if (failing_open_name != NULL && strcmp(name, failing_open_name) == 0 && failing_opens_left > 0) {
        if (failing_opens_left != UINT_MAX)
            failing_opens_left--;
        errno = failing_open_errno;
        return -1;
    }
    fd = openat(directory, path, flags);
    if (fd >= FD_MAX)
        abort();
    if (fd >= 0)
        snprintf(opened_names[fd], sizeof(opened_names[fd]), "%s", name);
    return fd;
}

static int hooked_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (fake_ns == 0)
        return clock_gettime(clock, now);
    *now = (struct timespec){.tv_sec = fake_ns / 1000000000, .tv_nsec = fake_ns % 1000000000};
    return 0;
}

static int hooked_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    static const struct timespec AT_ONCE;
    int ready = ppoll(fds, count, fake_ns == 0 ? timeout : &AT_ONCE, mask);

    if (fake_ns == 0 || ready != 0)
        return ready;
    if (interrupted_waits > 0) {
        interrupted_waits--;
        fake_ns++;
        errno = EINTR;
        return -1;
    }
    fake_ns += (int64_t)timeout->tv_sec * 1000000000 + timeout->tv_nsec;
    return 0;
}

static void reset_hooks(void)
{
    failing_name = NULL;
    failing_open_name = NULL;
    cut_name = NULL;
    flood_name = NULL;
    interruptions = 0;
    opens = 0;
    reads_of_memory_stat = 0;
    fake_ns = 0;
    interrupted_waits = 0;
}

#define clock_gettime hooked_clock_gettime
#define ppoll hooked_ppoll
#define pread hooked_pread
#define openat hooked_openat
#include "../../native/sampler.c"
#undef clock_gettime
#undef ppoll
#undef pread
#undef openat

/* Linked with --wrap for these: every allocation by anything in this program comes through here. */
static unsigned long allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);

static unsigned long calloc_to_fail; /* the so many-th calloc from now gives NULL; 0: none */

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    if (calloc_to_fail > 0 && --calloc_to_fail == 0)
        return NULL;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    allocations++;
    return __real_realloc(old, size);
}

void __wrap_free(void *old)
{
    allocations++;
    __real_free(old);
}

/* ---- checking ---- */

static unsigned long checks;
static unsigned long failures;

#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define CHECK_EQUAL(got, expected) check_equal((int64_t)(got), (int64_t)(expected), #got, __LINE__)

static void check(int holds, const char *what, int line)
{
    checks++;
    if (!holds) {
        failures++;
        printf("test_sampler.c:%d: %s\n", line, what);
    }
}

static void check_equal(int64_t got, int64_t expected, const char *what, int line)
{
    checks++;
    if (got != expected) {
        failures++;
        printf("test_sampler.c:%d: %s is %lld, expected %lld\n", line, what, (long long)got, (long long)expected);
    }
}

/* ---- texts ---- */

static const char CPU_STAT[] = "usage_usec 999848\nuser_usec 600000\nsystem_usec 399848\nnice_usec 0\n"
                               "core_sched.force_idle_usec 0\nnr_periods 40\nnr_throttled 7\nthrottled_usec 123456\n"
                               "nr_bursts 0\nburst_usec 0\n";
static const char CPU_STAT_MOVED[] = "usage_usec 999849\nuser_usec 600001\nsystem_usec 399848\n";
static const char CPU_STAT_BARE[] = "usage_usec 999848\nuser_usec 600000\nsystem_usec 399848\n";
static const char PRESSURE[] = "some avg10=12.50 avg60=3.00 avg300=0.99 total=987654\n"
                               "full avg10=0.00 avg60=0.00 avg300=0.00 total=4321\n";
static const char MEMORY_STAT[] = "anon 40960000\nfile 8192000\nkernel 100\ninactive_anon 40950000\nactive_anon 10000\n"
                                  "inactive_file 8000000\nactive_file 192000\nunevictable 0\n"
                                  "workingset_refault_anon 3\nworkingset_refault_file 77\n"
                                  "workingset_activate_file 5\n";
static const char MEMORY_STAT_OLD[] = "anon 5\ninactive_file 2\nactive_file 1\nworkingset_refault 9\n";
static const char MEMORY_EVENTS[] = "low 0\nhigh 11\nmax 22\noom 3\noom_kill 2\noom_group_kill 0\n";

static int cpu_stat_of(const char *text, cpu_stat *out)
{
    return parse_cpu_stat(text, strlen(text), out);
}

static int number_of(const char *text, uint64_t *out)
{
    return parse_number(text, strlen(text), out);
}

static int pressure_of(const char *text, pressure *out)
{
    return parse_pressure(text, strlen(text), out);
}

static void test_numbers(void)
{
    static const char *const refused[] = {"",
                                          "\n",
                                          "12",
                                          "-1\n",
                                          "+1\n",
                                          " 1\n",
                                          "1 \n",
                                          "1\r\n",
                                          "0x1\n",
                                          "1.5\n",
                                          "1\n2\n",
                                          "max\n",
                                          "1e3\n",
                                          "\n1\n",
                                          "18446744073709551616\n",
                                          "99999999999999999999\n",
                                          "184467440737095516150\n"};
    uint64_t value = 77;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        CHECK_EQUAL(number_of(refused[i], &value), PL_E_PARSE);
        CHECK_EQUAL(value, 77); /* outputs are written on success only */
    }
    CHECK_EQUAL(parse_number("1\0\n", 3, &value), PL_E_PARSE);
    CHECK_EQUAL(number_of("0\n", &value), PL_OK);
    CHECK_EQUAL(value, 0);
    CHECK_EQUAL(number_of("9999999999999999999\n", &value), PL_OK); /* 19 digits */
    CHECK(value == 9999999999999999999u);
    CHECK_EQUAL(number_of("18446744073709551615\n", &value), PL_OK);
    CHECK(value == UINT64_MAX);
    CHECK_EQUAL(number_of("000000000000000000000000000042\n", &value), PL_OK);
    CHECK_EQUAL(value, 42);
}

static void test_cpu_stat(void)
{
    static const char *const refused[] = {
        "",
        "user_usec 5\n", /* the required key is missing */
        "usage_usec\n",  /* no value */
        "usage_usec 5",  /* cut */
        "usage_usec -5\n",
        "usage_usec 5 6\n",
        "usage_usec 18446744073709551616\n",
        "usage_usec  5\n",
        " usage_usec 5\n",
        "xusage_usec 5\n",
        "usage_usec 5\nnr_periods x\n",         /* a known key spoilt */
        "usage_usec 5\nuser_usec 3\nsystem_us", /* cut in a line that nobody needs */
    };
    cpu_stat got = {.usage_usec = 77};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        CHECK_EQUAL(cpu_stat_of(refused[i], &got), PL_E_PARSE);
        CHECK_EQUAL(got.usage_usec, 77);
    }
    CHECK_EQUAL(cpu_stat_of(CPU_STAT, &got), PL_OK);
    CHECK_EQUAL(got.usage_usec, 999848);
    CHECK_EQUAL(got.nr_periods, 40);
    CHECK_EQUAL(got.nr_throttled, 7);
    CHECK_EQUAL(got.throttled_usec, 123456);
    CHECK_EQUAL(got.has_throttled, 1);
    CHECK_EQUAL(cpu_stat_of(CPU_STAT_BARE, &got), PL_OK);
    CHECK_EQUAL(got.has_throttled, 0);
    /* any order; unknown lines, empty ones and such as only look like a key; the last of two */
    CHECK_EQUAL(cpu_stat_of("throttled_usec 3\n\nusage_usecs 1\nnr_throttled 2\n\x80\xff junk\nusage_usec 4\n"
                            "nr_periods 1\nn\nusage_usec 5\n",
                            &got),
                PL_OK);
    CHECK_EQUAL(got.usage_usec, 5);
    CHECK_EQUAL(got.has_throttled, 1);
    CHECK_EQUAL(got.nr_periods * 100 + got.nr_throttled * 10 + got.throttled_usec, 123);
    /* two of the three throttling keys are not enough */
    CHECK_EQUAL(cpu_stat_of("usage_usec 5\nnr_periods 1\nnr_throttled 2\n", &got), PL_OK);
    CHECK_EQUAL(got.has_throttled, 0);
}

static void test_pressure(void)
{
    static const char *const refused[] = {
        "",
        "full avg10=0.00 total=5\n", /* no some */
        "some avg10=0.00\n",
        "some total=\n",
        "some total=5",
        "some total=5 more=1\n", /* total is the last field of its line */
        "some xtotal=5\n",
        "some total=-5\n",
        "some total=18446744073709551616\n",
        "some 5\n",
        "some \n",
        "some total=5\nfull avg10=0.00\n", /* a full line that says nothing */
        "sometotal=5\n",
    };
    pressure got = {.some_usec = 77};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        CHECK_EQUAL(pressure_of(refused[i], &got), PL_E_PARSE);
        CHECK_EQUAL(got.some_usec, 77);
    }
    CHECK_EQUAL(pressure_of(PRESSURE, &got), PL_OK);
    CHECK_EQUAL(got.some_usec, 987654);
    CHECK_EQUAL(got.full_usec, 4321);
    CHECK_EQUAL(got.has_full, 1);
    CHECK_EQUAL(pressure_of("some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n", &got), PL_OK);
    CHECK_EQUAL(got.has_full, 0);
    CHECK_EQUAL(pressure_of("full total=1\nnone of this\nsome total=2\n", &got), PL_OK);
    CHECK_EQUAL(got.some_usec * 10 + got.full_usec, 21);
}

static void test_memory_texts(void)
{
    memory_stat stat = {0};
    memory_events events = {0, 0};

    CHECK_EQUAL(parse_memory_stat(MEMORY_STAT, strlen(MEMORY_STAT), &stat), PL_OK);
    CHECK_EQUAL(stat.anon_bytes, 40960000);
    CHECK_EQUAL(stat.inactive_file_bytes, 8000000);
    CHECK_EQUAL(stat.has_file_refaults, 1);
    CHECK_EQUAL(stat.active_file_bytes, 192000);
    CHECK_EQUAL(stat.workingset_refault_file_pages, 77);
    CHECK_EQUAL(parse_memory_stat("anon 5\n", 7, &stat), PL_E_PARSE);
    CHECK_EQUAL(parse_memory_stat("inactive_file 5\n", 16, &stat), PL_E_PARSE);
    CHECK_EQUAL(stat.anon_bytes, 40960000);
    CHECK_EQUAL(parse_memory_stat(MEMORY_STAT_OLD, strlen(MEMORY_STAT_OLD), &stat), PL_OK);
    CHECK_EQUAL(stat.anon_bytes, 5);
    CHECK_EQUAL(stat.has_file_refaults, 0);
    CHECK_EQUAL(parse_memory_events(MEMORY_EVENTS, strlen(MEMORY_EVENTS), &events), PL_OK);
    CHECK_EQUAL(events.oom_kill, 2);
    CHECK_EQUAL(events.high, 11);
    CHECK_EQUAL(parse_memory_events("high 1\noom 5\n", 13, &events), PL_E_PARSE);
}

/* Cut anywhere, a text gives what it gave whole, or nothing: never another number. */
static void test_cut_texts(void)
{
    for (size_t cut = 0; cut < strlen(CPU_STAT); cut++) {
        cpu_stat got;

        if (parse_cpu_stat(CPU_STAT, cut, &got) != PL_OK)
            continue;
        CHECK_EQUAL(got.usage_usec, 999848);
        if (got.has_throttled)
            CHECK_EQUAL(got.throttled_usec, 123456);
    }
    for (size_t cut = 0; cut < strlen(PRESSURE); cut++) {
        pressure got;

        if (parse_pressure(PRESSURE, cut, &got) != PL_OK)
            continue;
        CHECK_EQUAL(got.some_usec, 987654);
        CHECK_EQUAL(got.has_full, 0);
    }
    for (size_t cut = 0; cut < strlen(MEMORY_STAT); cut++) {
        memory_stat got;

        if (parse_memory_stat(MEMORY_STAT, cut, &got) == PL_OK)
            CHECK(got.inactive_file_bytes == 8000000 &&
                  (!got.has_file_refaults || got.workingset_refault_file_pages == 77));
    }
    for (size_t cut = 0; cut < strlen(MEMORY_EVENTS); cut++) {
        memory_events got;

        if (parse_memory_events(MEMORY_EVENTS, cut, &got) == PL_OK)
            CHECK_EQUAL(got.oom_kill, 2);
    }
    for (size_t cut = 0; cut < 6; cut++) {
        uint64_t got;

        CHECK_EQUAL(parse_number("99984\n", cut, &got), PL_E_PARSE);
    }
}

static void parse_all(const char *buf, size_t len)
{
    cpu_stat cpu;
    pressure stalls;
    memory_stat stat;
    memory_events events;
    uint64_t value;

    (void)parse_cpu_stat(buf, len, &cpu);
    (void)parse_pressure(buf, len, &stalls);
    (void)parse_memory_stat(buf, len, &stat);
    (void)parse_memory_events(buf, len, &events);
    (void)parse_number(buf, len, &value);
}

/* Every seed, whole and cut at every offset, ends right before a page that must not be touched. */
static void test_guard_page(int count, char **seeds)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = 4 * page;
    char *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    CHECK_EQUAL(mprotect(memory + room, page, PROT_NONE), 0);
    for (int i = 0; i < count; i++) {
        char text[4 * 4096];
        int fd = open(seeds[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof(text));

        CHECK(n > 0);
        close(fd);
        for (size_t cut = 0; n > 0 && cut <= (size_t)n; cut++) {
            char *start = memory + room - cut;

            memcpy(start, text, cut);
            parse_all(start, cut);
            if (cut > 0) { /* the same with a newline at the very end, so that the parsers go all the way */
                start[cut - 1] = '\n';
                parse_all(start, cut);
            }
        }
        checks++;
    }
    munmap(memory, room + page);
}

/* ---- a tree of plain files ---- */

enum { SLOTS = 64, RAW_ROWS = 8, MEMORY_ROWS = 4, STRIDE = 2048 };

static const char *scratch;

typedef struct tree {
    char root[PATH_MAX];
    _Alignas(8) char rings[64 + SLOTS * STRIDE];
    pl_geometry geometry;
    pl_sampler *s;
} tree;

static void write_at(const tree *t, const char *group, const char *file, const char *text)
{
    char path[2 * PATH_MAX];
    FILE *stream;

    snprintf(path, sizeof(path), "%s/%s/%s", t->root, group, file);
    stream = fopen(path, "we");
    CHECK(stream != NULL);
    if (stream == NULL)
        exit(1);
    fputs(text, stream);
    fclose(stream);
}

static void delete_at(const tree *t, const char *group, const char *file)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s/%s", t->root, group, file);
    CHECK_EQUAL(unlink(path), 0);
}

static uint64_t inode_of(const tree *t, const char *group)
{
    char path[2 * PATH_MAX];
    struct stat found;

    snprintf(path, sizeof(path), "%s/%s", t->root, group);
    return stat(path, &found) == 0 ? (uint64_t)found.st_ino : 0;
}

/* A group with cpu.stat only; the others as a test wants them. */
static void make_group(const tree *t, const char *group)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", t->root, group);
    CHECK_EQUAL(mkdir(path, 0755), 0);
    write_at(t, group, "cpu.stat", CPU_STAT);
}

static void make_full_group(const tree *t, const char *group)
{
    make_group(t, group);
    write_at(t, group, "cpu.pressure", PRESSURE);
    write_at(t, group, "memory.current", "50000000\n");
    write_at(t, group, "memory.stat", MEMORY_STAT);
    write_at(t, group, "memory.peak", "60000000\n");
    write_at(t, group, "memory.pressure", PRESSURE);
    write_at(t, group, "io.pressure", PRESSURE);
    write_at(t, group, "memory.events", MEMORY_EVENTS);
}

static tree *open_tree(uint32_t fd_budget)
{
    static unsigned count;
    tree *t = calloc(1, sizeof(*t));

    if (t == NULL)
        exit(1);
    reset_hooks();
    snprintf(t->root, sizeof(t->root), "%s/tree%u", scratch, count++);
    CHECK_EQUAL(mkdir(t->root, 0755), 0);
    t->geometry = (pl_geometry){.first_slot_offset = 64,
                                .slot_stride = STRIDE,
                                .max_slots = SLOTS,
                                .raw_offset = sizeof(pl_slot_header),
                                .raw_length = RAW_ROWS,
                                .memory_offset = sizeof(pl_slot_header) + RAW_ROWS * sizeof(pl_sample),
                                .memory_length = MEMORY_ROWS};
    CHECK_EQUAL(pl_open(t->root, t->rings, sizeof(t->rings), &t->geometry, 4, fd_budget, &t->s), PL_OK);
    return t;
}

static void close_tree(tree *t)
{
    pl_close(t->s);
    free(t);
    reset_hooks();
}

static int add(tree *t, uint32_t slot, const char *group)
{
    return pl_add(t->s, slot, group, inode_of(t, group));
}

static pl_slot_header *header(tree *t, uint32_t slot)
{
    return (pl_slot_header *)(void *)(t->rings + t->geometry.first_slot_offset + slot * t->geometry.slot_stride);
}

static const pl_sample *newest(tree *t, uint32_t slot)
{
    const pl_sample *ring = (const pl_sample *)(const void *)((char *)header(t, slot) + t->geometry.raw_offset);

    return &ring[(pl_head(&header(t, slot)->raw_head) - 1) % RAW_ROWS];
}

static const pl_memory_row *newest_memory(tree *t, uint32_t slot)
{
    const pl_memory_row *ring =
        (const pl_memory_row *)(const void *)((char *)header(t, slot) + t->geometry.memory_offset);

    return &ring[(pl_head(&header(t, slot)->memory_head) - 1) % MEMORY_ROWS];
}

static pl_sweep_result sweep(tree *t, uint32_t what)
{
    pl_sweep_result result;

    CHECK_EQUAL(pl_sweep(t->s, what, &result), PL_OK);
    CHECK(result.started_ns <= result.finished_ns);
    return result;
}

static uint64_t errors(tree *t, int file, int cause)
{
    pl_stats stats;

    pl_get_stats(t->s, &stats);
    return stats.errors[file][cause];
}

static uint64_t all_errors(tree *t)
{
    uint64_t sum = 0;

    for (int file = 0; file < PL_FILES; file++) {
        for (int cause = 0; cause < PL_CAUSES; cause++)
            sum += errors(t, file, cause);
    }
    return sum;
}

static uint32_t open_files(tree *t)
{
    pl_stats stats;

    pl_get_stats(t->s, &stats);
    return stats.open_files;
}

/* Descriptors of this process; with_flag counts only those that close at exec. */
static unsigned count_fds(int with_flag)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned count = 0;

    if (directory == NULL)
        exit(1);
    while ((entry = readdir(directory)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] == '.' || fd == dirfd(directory))
            continue;
        if (!with_flag || (fcntl(fd, F_GETFD) & FD_CLOEXEC))
            count++;
    }
    closedir(directory);
    return count;
}

static void test_full_row(void)
{
    const uint32_t all = PL_HAS_THROTTLED | PL_HAS_MEMORY | PL_HAS_PRESSURE | PL_HAS_FULL;
    const uint32_t all_slow = PL_HAS_MEMORY | PL_HAS_MEMORY_STAT | PL_HAS_MEMORY_PEAK | PL_HAS_MEMORY_PRESSURE |
                              PL_HAS_IO_PRESSURE | PL_HAS_MEMORY_EVENTS | PL_HAS_FILE_REFAULTS;
    tree *t = open_tree(1000);
    pl_sweep_result result;
    const pl_memory_row *slow;

    make_full_group(t, "a");
    CHECK_EQUAL(add(t, 3, "a"), PL_OK);
    interruptions = 2; /* EINTR is tried again */
    result = sweep(t, 0);
    CHECK_EQUAL(result.sampled * 1000 + result.failed * 100 + result.gone * 10 + result.memory_rows, 1000);
    CHECK_EQUAL(pl_head(&header(t, 3)->raw_head), 1);
    CHECK(newest(t, 3)->monotonic_ns >= result.started_ns && newest(t, 3)->monotonic_ns <= result.finished_ns);
    CHECK_EQUAL(newest(t, 3)->status, PL_OK);
    CHECK_EQUAL(newest(t, 3)->has, all);
    CHECK_EQUAL(newest(t, 3)->usage_usec, 999848);
    CHECK_EQUAL(newest(t, 3)->throttled_usec, 123456);
    CHECK_EQUAL(newest(t, 3)->nr_periods, 40);
    CHECK_EQUAL(newest(t, 3)->nr_throttled, 7);
    CHECK_EQUAL(newest(t, 3)->cpu_some_usec, 987654);
    CHECK_EQUAL(newest(t, 3)->cpu_full_usec, 4321);
    CHECK_EQUAL(newest(t, 3)->memory_current_bytes, 50000000);
    CHECK_EQUAL(pl_head(&header(t, 3)->memory_head), 0);
    result = sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(result.memory_rows, 1);
    slow = newest_memory(t, 3);
    CHECK_EQUAL(slow->has, all_slow);
    CHECK_EQUAL(slow->status, PL_OK);
    CHECK(slow->monotonic_ns >= newest(t, 3)->monotonic_ns && slow->monotonic_ns <= result.finished_ns);
    CHECK_EQUAL(slow->memory_current_bytes, 50000000);
    CHECK_EQUAL(slow->inactive_file_bytes, 8000000);
    CHECK_EQUAL(slow->anon_bytes, 40960000);
    CHECK_EQUAL(slow->active_file_bytes, 192000);
    CHECK_EQUAL(slow->workingset_refault_file_pages, 77);
    CHECK_EQUAL(slow->working_set_peak_bytes, 42000000); /* 50,000,000 less 8,000,000 inactive */
    CHECK_EQUAL(slow->memory_peak_bytes, 60000000);
    CHECK_EQUAL(slow->memory_some_usec, 987654);
    CHECK_EQUAL(slow->memory_full_usec, 4321);
    CHECK_EQUAL(slow->io_some_usec, 987654);
    CHECK_EQUAL(slow->oom_kill, 2);
    CHECK_EQUAL(slow->high_events, 11);
    CHECK_EQUAL(all_errors(t), 0);
    CHECK_EQUAL(open_files(t), 1 + 9);
    /* periods beyond 32 bits: the low half */
    write_at(t, "a", "cpu.stat", "usage_usec 1\nnr_periods 4294967301\nnr_throttled 4294967298\nthrottled_usec 9\n");
    sweep(t, 0);
    CHECK_EQUAL(newest(t, 3)->nr_periods, 5);
    CHECK_EQUAL(newest(t, 3)->nr_throttled, 2);
    close_tree(t);
}

static void test_rings_wrap_and_go_on(void)
{
    tree *t = open_tree(1000);

    make_full_group(t, "a");
    header(t, 0)->raw_head = 6; /* as after a restart */
    header(t, 0)->memory_head = 3;
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    for (int i = 0; i < 21; i++) {
        uint64_t before = newest(t, 0)->monotonic_ns;

        sweep(t, PL_SWEEP_SLOW);
        CHECK(newest(t, 0)->monotonic_ns >= before && newest(t, 0)->status == PL_OK);
    }
    CHECK_EQUAL(pl_head(&header(t, 0)->raw_head), 27);
    CHECK_EQUAL(pl_head(&header(t, 0)->memory_head), 24);
    for (size_t i = 0; i < STRIDE; i++) /* nothing outside the slot was written */
        CHECK(((char *)header(t, 1))[i] == 0);
    close_tree(t);
}

static void test_bare_group(void)
{
    tree *t = open_tree(1000);
    pl_sweep_result result;

    make_group(t, "bare");
    write_at(t, "bare", "cpu.stat", CPU_STAT_BARE);
    CHECK_EQUAL(add(t, 0, "bare"), PL_OK);
    result = sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(result.sampled, 1);
    CHECK_EQUAL(result.memory_rows, 0); /* nothing known: no row */
    CHECK_EQUAL(newest(t, 0)->has, 0);
    CHECK_EQUAL(newest(t, 0)->usage_usec, 999848);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_PRESSURE, PL_CAUSE_ABSENT), 1);
    CHECK_EQUAL(errors(t, PL_FILE_MEMORY_CURRENT, PL_CAUSE_ABSENT), 1);
    CHECK_EQUAL(errors(t, PL_FILE_MEMORY_STAT, PL_CAUSE_ABSENT), 0); /* its controller is off: not asked for */
    opens = 0;
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(opens, 0); /* what is absent is left alone */
    /* pressure alone is worth a memory row */
    write_at(t, "bare", "memory.pressure", PRESSURE);
    result = sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(result.memory_rows, 0);
    result = sweep(t, PL_SWEEP_SLOW | PL_SWEEP_RETRY);
    CHECK_EQUAL(result.memory_rows, 1);
    CHECK_EQUAL(newest_memory(t, 0)->has, PL_HAS_MEMORY_PRESSURE);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_PRESSURE, PL_CAUSE_ABSENT), 1); /* still missing: no news */
    write_at(t, "bare", "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    sweep(t, PL_SWEEP_RETRY);
    CHECK_EQUAL(newest(t, 0)->has, PL_HAS_PRESSURE);
    /* and off again: that is news */
    failing_name = "cpu.pressure";
    failing_errno = EOPNOTSUPP;
    sweep(t, 0);
    CHECK_EQUAL(newest(t, 0)->has, 0);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_PRESSURE, PL_CAUSE_ABSENT), 2);
    close_tree(t);
}

static void test_feature_off_while_alive(void)
{
    tree *t = open_tree(1000);

    make_full_group(t, "a");
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    sweep(t, PL_SWEEP_SLOW);
    failing_name = "cpu.pressure";
    failing_errno = ENODEV; /* `0` written to cgroup.pressure */
    failing_open_name = "cpu.pressure";
    failing_open_errno = ENOENT;
    failing_opens_left = UINT_MAX;
    for (int i = 0; i < 3; i++)
        sweep(t, i == 1 ? PL_SWEEP_RETRY : 0);
    CHECK_EQUAL(newest(t, 0)->status, PL_OK);
    CHECK_EQUAL(newest(t, 0)->has, PL_HAS_THROTTLED | PL_HAS_MEMORY);
    CHECK_EQUAL(newest(t, 0)->cpu_some_usec, 0);
    CHECK_EQUAL(all_errors(t), 1);
    failing_name = NULL; /* on again */
    failing_open_name = NULL;
    sweep(t, 0);
    CHECK_EQUAL(newest(t, 0)->has & PL_HAS_PRESSURE, 0);
    sweep(t, PL_SWEEP_RETRY);
    CHECK_EQUAL(newest(t, 0)->has & PL_HAS_PRESSURE, PL_HAS_PRESSURE);
    CHECK_EQUAL(newest(t, 0)->cpu_some_usec, 987654);
    close_tree(t);
}

static void test_gone(void)
{
    tree *t = open_tree(1000);
    uint32_t gone[4] = {99, 99, 99, 99};
    pl_sweep_result result;
    unsigned before;

    for (uint32_t i = 0; i < 3; i++) {
        char name[8];

        snprintf(name, sizeof(name), "g%u", i);
        make_full_group(t, name);
    }
    before = count_fds(0);
    CHECK_EQUAL(add(t, 0, "g0"), PL_OK);
    CHECK_EQUAL(add(t, 1, "g1"), PL_OK);
    CHECK_EQUAL(add(t, 5, "g2"), PL_OK);
    sweep(t, PL_SWEEP_SLOW);
    failing_name = "cpu.stat";
    failing_errno = ENODEV;
    result = sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(result.gone, 3);
    CHECK_EQUAL(result.sampled + result.failed + result.memory_rows, 0);
    CHECK_EQUAL(pl_head(&header(t, 0)->raw_head), 1); /* no row */
    CHECK_EQUAL(pl_last_errno(t->s), ENODEV);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_STAT, PL_CAUSE_GONE), 3);
    CHECK_EQUAL(count_fds(0), before);
    CHECK_EQUAL(open_files(t), 1);
    failing_name = NULL;
    CHECK_EQUAL(sweep(t, 0).sampled, 0);
    CHECK_EQUAL(pl_remove(t->s, 1), PL_OK); /* the caller knew: not told again */
    CHECK_EQUAL(pl_take_gone(t->s, gone, 1), 1);
    CHECK_EQUAL(pl_take_gone(t->s, gone + 1, 3), 1);
    CHECK_EQUAL(gone[0] + gone[1], 5); /* slots 0 and 5 in any order */
    CHECK_EQUAL(gone[2], 99);
    CHECK_EQUAL(pl_take_gone(t->s, gone, 4), 0);
    /* ENOENT by openat on the directory: the same, for a file that is not kept */
    CHECK_EQUAL(add(t, 0, "g0"), PL_OK);
    failing_name = "cpu.stat";
    failing_errno = EIO;
    result = sweep(t, 0);
    CHECK_EQUAL(result.failed, 1);
    CHECK_EQUAL(newest(t, 0)->status, PL_E_IO);
    CHECK_EQUAL(newest(t, 0)->has, 0);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_STAT, PL_CAUSE_IO), 1);
    CHECK_EQUAL(pl_last_errno(t->s), EIO);
    failing_errno = EOPNOTSUPP; /* makes no sense for cpu.stat: an error, not a feature that is off */
    sweep(t, 0);
    CHECK_EQUAL(newest(t, 0)->status, PL_E_IO);
    close_tree(t);
}

static void test_unreadable_texts(void)
{
    static const char *const optional[] = {"cpu.pressure",    "memory.current", "memory.stat",  "memory.peak",
                                           "memory.pressure", "io.pressure",    "memory.events"};
    static const uint32_t flags[] = {PL_HAS_PRESSURE | PL_HAS_FULL,
                                     PL_HAS_MEMORY,
                                     PL_HAS_MEMORY_STAT | PL_HAS_FILE_REFAULTS,
                                     PL_HAS_MEMORY_PEAK,
                                     PL_HAS_MEMORY_PRESSURE,
                                     PL_HAS_IO_PRESSURE,
                                     PL_HAS_MEMORY_EVENTS};
    tree *t = open_tree(1000);

    make_full_group(t, "a");
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < 7; i++) {
            int file = PL_FILE_CPU_PRESSURE + i;
            uint64_t before = errors(t, file, PL_CAUSE_PARSE);
            uint32_t has;

            reset_hooks();
            if (way == 0)
                flood_name = optional[i]; /* a full buffer may be cut */
            cut_name = way == 0 ? NULL : optional[i];
            cut_length = way == 1 ? 4 : 0; /* way 2: an empty read */
            sweep(t, PL_SWEEP_SLOW | PL_SWEEP_RETRY);
            has = newest(t, 0)->has | newest_memory(t, 0)->has;
            CHECK_EQUAL(newest(t, 0)->status, PL_OK);
            CHECK_EQUAL(newest(t, 0)->usage_usec, 999848);
            CHECK_EQUAL(has & flags[i], 0);
            if (file != PL_FILE_MEMORY_CURRENT) /* without it the memory files are not read: no others go on */
                CHECK_EQUAL(has | flags[i], 1023);
            CHECK_EQUAL(errors(t, file, PL_CAUSE_PARSE), before + 1);
        }
        reset_hooks();
        cut_name = "cpu.stat";
        cut_length = 14; /* usage_usec 999848 -> usage_usec 999 */
        CHECK_EQUAL(sweep(t, PL_SWEEP_SLOW).failed, 1);
        CHECK_EQUAL(newest(t, 0)->status, PL_E_PARSE);
        CHECK_EQUAL(newest(t, 0)->usage_usec, 0);
        CHECK_EQUAL(newest(t, 0)->has, 0);
        CHECK_EQUAL(newest_memory(t, 0)->has & PL_HAS_MEMORY_STAT,
                    PL_HAS_MEMORY_STAT); /* memory is fine all the same */
        reset_hooks();
        sweep(t, PL_SWEEP_SLOW);
        CHECK_EQUAL(newest(t, 0)->has | newest_memory(t, 0)->has, 1023);
    }
    close_tree(t);
}

static void test_forbidden_file_is_asked_for_each_minute_only(void)
{
    tree *t = open_tree(1000);

    make_full_group(t, "a");
    failing_open_name = "cpu.pressure";
    failing_open_errno = EACCES;
    failing_opens_left = UINT_MAX;
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    opens = 0;
    for (int i = 0; i < 5; i++)
        sweep(t, 0);
    CHECK_EQUAL(opens, 1); /* memory.stat, at the first peak */
    CHECK_EQUAL(errors(t, PL_FILE_CPU_PRESSURE, PL_CAUSE_IO), 1);
    CHECK_EQUAL(pl_last_errno(t->s), EACCES);
    sweep(t, PL_SWEEP_RETRY);
    CHECK_EQUAL(opens, 2);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_PRESSURE, PL_CAUSE_IO), 1);
    failing_open_name = NULL;
    sweep(t, PL_SWEEP_RETRY);
    CHECK_EQUAL(newest(t, 0)->has & PL_HAS_PRESSURE, PL_HAS_PRESSURE);
    /* cpu.stat forbidden: watched all the same, each row says why it is none */
    failing_open_name = "cpu.stat";
    make_full_group(t, "b");
    CHECK_EQUAL(add(t, 1, "b"), PL_OK);
    CHECK_EQUAL(sweep(t, 0).failed, 1);
    CHECK_EQUAL(newest(t, 1)->status, PL_E_IO);
    close_tree(t);
}

static void test_working_set_peak_between_slow_ticks(void)
{
    const uint64_t mib = 1u << 20;
    tree *t = open_tree(1000);
    char text[64];

    make_full_group(t, "a");
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(header(t, 0)->memory_peak_seen_bytes, 50000000);
    CHECK_EQUAL(header(t, 0)->working_set_pending_bytes, 0);
    reads_of_memory_stat = 0;
    /* 1 MiB less one byte above the peak: nothing */
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)(50000000 + mib - 1));
    write_at(t, "a", "memory.current", text);
    sweep(t, 0);
    CHECK_EQUAL(reads_of_memory_stat, 0);
    CHECK_EQUAL(header(t, 0)->memory_peak_seen_bytes, 50000000);
    /* 1 MiB above it: read at once */
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)(50000000 + mib));
    write_at(t, "a", "memory.current", text);
    sweep(t, 0);
    sweep(t, 0);
    CHECK_EQUAL(reads_of_memory_stat, 1);
    CHECK_EQUAL(header(t, 0)->memory_peak_seen_bytes, 50000000 + mib);
    CHECK_EQUAL(header(t, 0)->working_set_pending_bytes, 50000000 + mib - 8000000);
    /* the peak is over when the slow tick comes: its row tells it, once */
    write_at(t, "a", "memory.current", "9000000\n");
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(newest_memory(t, 0)->memory_current_bytes, 9000000);
    CHECK_EQUAL(newest_memory(t, 0)->working_set_peak_bytes, 50000000 + mib - 8000000);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(newest_memory(t, 0)->working_set_peak_bytes, 1000000);
    /* more inactive file pages than use: floor 0 */
    write_at(t, "a", "memory.current", "5\n");
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(newest_memory(t, 0)->working_set_peak_bytes, 0);
    CHECK_EQUAL(newest_memory(t, 0)->has & PL_HAS_MEMORY_STAT, PL_HAS_MEMORY_STAT);
    /* above 64 MiB a step is 1/64 of the peak: 16 MiB at 1 GiB */
    write_at(t, "a", "memory.current", "1073741824\n");
    sweep(t, 0);
    reads_of_memory_stat = 0;
    write_at(t, "a", "memory.current", "1090519039\n");
    sweep(t, 0);
    CHECK_EQUAL(reads_of_memory_stat, 0);
    write_at(t, "a", "memory.current", "1090519040\n");
    sweep(t, 0);
    CHECK_EQUAL(reads_of_memory_stat, 1);
    /* memory.stat spoilt at the slow tick: the peak waits for the next row */
    cut_name = "memory.stat";
    cut_length = 3;
    sweep(t, PL_SWEEP_SLOW | PL_SWEEP_RETRY);
    CHECK_EQUAL(newest_memory(t, 0)->has & PL_HAS_MEMORY_STAT, 0);
    CHECK_EQUAL(newest_memory(t, 0)->working_set_peak_bytes, 0);
    cut_name = NULL;
    write_at(t, "a", "memory.current", "9000000\n");
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(newest_memory(t, 0)->working_set_peak_bytes, 1090519040 - 8000000);
    close_tree(t);
}

static void test_memory_stat_of_what_stands_still(void)
{
    tree *t = open_tree(1000);

    make_full_group(t, "a");
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 1);
    /* neither CPU time nor memory: the row says what the one before said, and has a stamp of its own */
    sweep(t, 0);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 1);
    CHECK_EQUAL(newest_memory(t, 0)->inactive_file_bytes, 8000000);
    CHECK_EQUAL(newest_memory(t, 0)->working_set_peak_bytes, 42000000);
    CHECK_EQUAL(newest_memory(t, 0)->has & (PL_HAS_MEMORY_STAT | PL_HAS_FILE_REFAULTS),
                PL_HAS_MEMORY_STAT | PL_HAS_FILE_REFAULTS);
    /* each minute it is read all the same: others may have touched its pages; at the slow tick that follows */
    sweep(t, PL_SWEEP_RETRY);
    CHECK_EQUAL(reads_of_memory_stat, 1);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 2);
    /* CPU time alone, memory alone */
    write_at(t, "a", "cpu.stat", CPU_STAT_MOVED);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 3);
    write_at(t, "a", "memory.current", "50000001\n");
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 4);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 4);
    /* what CPU it used is not known: nothing says that it stands still */
    cut_name = "cpu.stat";
    cut_length = 3;
    sweep(t, PL_SWEEP_SLOW);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 6);
    cut_name = NULL;
    /* a cgroup that is added anew is another one, whatever it used */
    CHECK_EQUAL(pl_remove(t->s, 0), PL_OK);
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(reads_of_memory_stat, 7);
    close_tree(t);
}

static void test_fd_budget(void)
{
    /* root, 6 directories and 5 more */
    tree *t = open_tree(12);
    pl_sweep_result result;
    char name[8];

    for (uint32_t i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        make_full_group(t, name);
        CHECK_EQUAL(add(t, i, name), PL_OK);
        CHECK(open_files(t) <= 12);
        result = sweep(t, PL_SWEEP_SLOW); /* takes what is left for slow files, which give way to the next add */
        CHECK_EQUAL(result.sampled, i + 1);
        CHECK_EQUAL(result.memory_rows, i + 1);
        CHECK(open_files(t) <= 12);
    }
    CHECK_EQUAL(open_files(t), 12);
    CHECK_EQUAL(t->s->kept[RANK_IDENTITY], 6);
    CHECK_EQUAL(t->s->kept[RANK_FAST], 5);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQUAL(newest(t, i)->has, 15);
        CHECK_EQUAL(newest_memory(t, i)->has, 1010);
    }
    CHECK_EQUAL(all_errors(t), 0);
    /* a slot that goes makes room for fast files of the others */
    CHECK_EQUAL(pl_remove(t->s, 0), PL_OK);
    sweep(t, 0);
    CHECK_EQUAL(open_files(t), 12);
    /* cpu.stat of one that is not kept vanishes: gone */
    delete_at(t, "g5", "cpu.stat");
    drop_fd(t->s, &t->s->slots[5], PL_FILE_CPU_STAT);
    CHECK_EQUAL(sweep(t, 0).gone, 1);
    for (uint32_t i = 6; i < 20; i++) {
        int status;

        snprintf(name, sizeof(name), "g%u", i);
        make_full_group(t, name);
        status = add(t, i, name);
        CHECK_EQUAL(status, i < 13 ? PL_OK : PL_E_LIMIT); /* 11 directories and the root fill the budget */
    }
    CHECK_EQUAL(pl_last_errno(t->s), EMFILE);
    CHECK_EQUAL(errors(t, PL_FILE_DIRECTORY, PL_CAUSE_LIMIT), 7);
    result = sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(result.sampled, 11);
    CHECK_EQUAL(result.memory_rows, 11);
    CHECK_EQUAL(t->s->kept[RANK_FAST] + t->s->kept[RANK_SLOW], 0);
    CHECK_EQUAL(open_files(t), 12);
    close_tree(t);
}

/* The process is out of descriptors although the budget is not: some are shed, every row still comes. */
static void test_emfile(void)
{
    tree *t = open_tree(1000);
    struct rlimit before;
    struct rlimit tight;
    pl_sweep_result result;
    unsigned used = count_fds(0);
    char name[8];

    for (uint32_t i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        make_full_group(t, name);
    }
    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = used + 6 + 6 + 1; /* directories, and some files */
    CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (uint32_t i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        CHECK_EQUAL(add(t, i, name), PL_OK);
    }
    result = sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(result.sampled, 6);
    CHECK_EQUAL(result.memory_rows, 6);
    result = sweep(t, PL_SWEEP_SLOW | PL_SWEEP_RETRY);
    CHECK_EQUAL(result.memory_rows, 6);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQUAL(newest(t, i)->has, 15);
        CHECK_EQUAL(newest_memory(t, i)->has, 1010);
    }
    CHECK(all_errors(t) > 0);
    setrlimit(RLIMIT_NOFILE, &before);
    sweep(t, PL_SWEEP_SLOW | PL_SWEEP_RETRY); /* and when there are enough again, all are kept */
    CHECK_EQUAL(open_files(t), 1 + 6 * 9);
    /* nothing of ours to shed: the caller is told */
    for (uint32_t i = 0; i < 6; i++)
        pl_remove(t->s, i);
    failing_open_name = "g0";
    failing_open_errno = ENFILE;
    failing_opens_left = UINT_MAX;
    CHECK_EQUAL(add(t, 0, "g0"), PL_E_LIMIT);
    close_tree(t);
}

static void test_emfile_on_cpu_stat_is_a_gap(void)
{
    tree *t = open_tree(2); /* root and one directory: nothing to shed */

    make_full_group(t, "a");
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    failing_open_name = "cpu.stat";
    failing_open_errno = EMFILE;
    failing_opens_left = UINT_MAX;
    CHECK_EQUAL(sweep(t, 0).failed, 1);
    CHECK_EQUAL(newest(t, 0)->status, PL_E_LIMIT);
    CHECK_EQUAL(errors(t, PL_FILE_CPU_STAT, PL_CAUSE_LIMIT), 1);
    failing_open_name = NULL;
    CHECK_EQUAL(sweep(t, 0).sampled, 1);
    close_tree(t);
}

static void test_add_refuses(void)
{
    tree *t = open_tree(1000);
    unsigned before = count_fds(0);

    make_group(t, "a");
    CHECK_EQUAL(pl_add(t->s, 0, "a", inode_of(t, "a") + 1), PL_E_GONE); /* another took the name */
    CHECK_EQUAL(pl_last_errno(t->s), ESTALE);
    CHECK_EQUAL(pl_add(t->s, 0, "nothing", 1), PL_E_GONE);
    CHECK_EQUAL(pl_last_errno(t->s), ENOENT);
    CHECK_EQUAL(errors(t, PL_FILE_DIRECTORY, PL_CAUSE_GONE), 2);
    CHECK_EQUAL(pl_add(t->s, 0, "a/cpu.stat", 1), PL_E_IO); /* ENOTDIR */
    CHECK_EQUAL(pl_add(t->s, 0, "/a", 1), PL_E_ARG);
    CHECK_EQUAL(pl_add(t->s, SLOTS, "a", 1), PL_E_ARG);
    CHECK_EQUAL(pl_add(t->s, 0, NULL, 1), PL_E_ARG);
    CHECK_EQUAL(pl_add(NULL, 0, "a", 1), PL_E_ARG);
    CHECK_EQUAL(pl_remove(t->s, SLOTS), PL_E_ARG);
    CHECK_EQUAL(pl_remove(NULL, 0), PL_E_ARG);
    CHECK_EQUAL(pl_remove(t->s, 0), PL_OK); /* not sampled: fine */
    delete_at(t, "a", "cpu.stat");
    CHECK_EQUAL(add(t, 0, "a"), PL_E_GONE);
    CHECK_EQUAL(count_fds(0), before);
    write_at(t, "a", "cpu.stat", CPU_STAT);
    CHECK_EQUAL(add(t, 0, "a"), PL_OK);
    CHECK_EQUAL(add(t, 0, "a"), PL_E_ARG); /* taken */
    write_at(t, "", "cpu.stat", CPU_STAT);
    CHECK_EQUAL(pl_add(t->s, 1, "", inode_of(t, ".")), PL_OK); /* the root itself */
    CHECK_EQUAL(sweep(t, 0).sampled, 2);
    CHECK_EQUAL(pl_sweep(t->s, 4, &(pl_sweep_result){0}), PL_E_ARG);
    CHECK_EQUAL(pl_sweep(t->s, 0, NULL), PL_E_ARG);
    CHECK_EQUAL(pl_sweep(NULL, 0, &(pl_sweep_result){0}), PL_E_ARG);
    CHECK_EQUAL(pl_take_gone(NULL, NULL, 0), PL_E_ARG);
    CHECK_EQUAL(pl_take_gone(t->s, NULL, 1), PL_E_ARG);
    close_tree(t);
    pl_close(NULL);
}

static void test_open_refuses_what_does_not_fit(void)
{
    tree *t = open_tree(10);
    unsigned before = count_fds(0);

    for (int wrong = 0; wrong < 14; wrong++) {
        pl_geometry g = t->geometry;
        uint64_t bytes = sizeof(t->rings);
        char *rings = t->rings;
        pl_sampler *s = (pl_sampler *)(void *)&g;

        switch (wrong) {
        case 0:
            bytes--;
            break;
        case 1:
            rings += 4;
            break;
        case 2:
            g.max_slots = 0;
            break;
        case 3:
            g.max_slots++;
            break;
        case 4:
            g.slot_stride = 0;
            break;
        case 5:
            g.slot_stride += 4;
            break;
        case 6:
            g.first_slot_offset = UINT64_MAX - 7;
            break;
        case 7:
            g.raw_length = 0;
            break;
        case 8:
            g.raw_length++;
            break; /* into the memory ring */
        case 9:
            g.raw_offset = 8;
            break; /* over the header */
        case 10:
            g.memory_length = UINT32_MAX;
            break;
        case 11:
            g.memory_offset += 4;
            break;
        case 12:
            g.slot_stride = UINT64_MAX - 7;
            break;
        case 13:
            g.first_slot_offset = bytes;
            break;
        }
        CHECK_EQUAL(pl_open(t->root, rings, bytes, &g, 1, 10, &s), PL_E_ARG);
        CHECK(s == (pl_sampler *)(void *)&g); /* *out is set on PL_OK only */
    }
    for (unsigned long nth = 1; nth <= 4; nth++) {
        pl_sampler *s = NULL;

        calloc_to_fail = nth;
        CHECK_EQUAL(pl_open(t->root, t->rings, sizeof(t->rings), &t->geometry, 1, 10, &s), PL_E_NOMEM);
        CHECK(s == NULL);
    }
    calloc_to_fail = 0;
    CHECK_EQUAL(pl_open("/nonexistent", t->rings, sizeof(t->rings), &t->geometry, 1, 10, &(pl_sampler *){NULL}),
                PL_E_IO);
    CHECK_EQUAL(errno, ENOENT);
    CHECK_EQUAL(pl_open(NULL, t->rings, sizeof(t->rings), &t->geometry, 1, 10, &(pl_sampler *){NULL}), PL_E_ARG);
    CHECK_EQUAL(count_fds(0), before);
    close_tree(t);
}

static void test_lanes(void)
{
    tree *t = open_tree(10);
    pl_lane_reading readings[4];
    char absolute[2 * PATH_MAX];
    uint32_t lane = 99;

    make_full_group(t, "a");
    snprintf(absolute, sizeof(absolute), "%s/a/io.pressure", t->root);
    CHECK_EQUAL(pl_lane_add(t->s, "a/cpu.pressure", &lane), PL_OK);
    CHECK_EQUAL(lane, 0);
    CHECK_EQUAL(pl_lane_add(t->s, absolute, &lane), PL_OK);
    CHECK_EQUAL(lane, 1);
    CHECK_EQUAL(pl_lane_add(t->s, "a/nothing", &lane), PL_E_ABSENT);
    CHECK_EQUAL(pl_lane_add(t->s, "", &lane), PL_E_ARG);
    CHECK_EQUAL(pl_lane_add(t->s, "a/memory.pressure", &lane), PL_OK);
    CHECK_EQUAL(pl_lane_add(t->s, "a/memory.current", &lane), PL_OK);
    CHECK_EQUAL(pl_lane_add(t->s, "a/cpu.pressure", &lane), PL_E_LIMIT);
    CHECK_EQUAL(open_files(t), 5);
    failing_name = "memory.pressure";
    failing_errno = ENODEV;
    CHECK_EQUAL(pl_lane_read(t->s, readings, 4), 4);
    CHECK_EQUAL(readings[0].status, PL_OK);
    CHECK_EQUAL(readings[0].some_usec, 987654);
    CHECK(readings[0].monotonic_ns > 0 && readings[0].monotonic_ns <= readings[1].monotonic_ns);
    CHECK_EQUAL(readings[1].some_usec, 987654);
    CHECK_EQUAL(readings[2].status, PL_E_ABSENT);
    CHECK_EQUAL(readings[3].status, PL_E_PARSE);
    CHECK_EQUAL(pl_lane_remove(t->s, 0), PL_OK);
    CHECK_EQUAL(pl_lane_remove(t->s, 0), PL_OK);
    CHECK_EQUAL(pl_lane_remove(t->s, 4), PL_E_ARG);
    CHECK_EQUAL(pl_lane_read(t->s, readings, 2), 2);
    CHECK_EQUAL(readings[0].lane, 1);
    CHECK_EQUAL(open_files(t), 4);
    CHECK_EQUAL(pl_lane_add(t->s, "a/cpu.pressure", &lane), PL_OK);
    CHECK_EQUAL(lane, 0);
    CHECK_EQUAL(pl_lane_read(t->s, NULL, 1), PL_E_ARG);
    CHECK_EQUAL(pl_lane_read(NULL, NULL, 0), PL_E_ARG);
    CHECK_EQUAL(pl_lane_add(NULL, "a", &lane), PL_E_ARG);
    CHECK_EQUAL(pl_lane_remove(NULL, 0), PL_E_ARG);
    close_tree(t);
}

/* A lane that did not wait in the second before, quiet while it waits a fifth of its time. */
static pl_quiet_lane calm(uint32_t lane)
{
    return (pl_quiet_lane){
        .lane = lane, .monotonic_ns = (uint64_t)fake_ns - 1000000000u, .some_usec = 987654, .most_ratio = 0.2};
}

/* Four readings at most: at once, and after one, two and three milliseconds. */
static int wait_four_ms(tree *t, int wake_fd, pl_quiet_lane *lanes, uint32_t count, pl_lane_reading *readings)
{
    int64_t due_ns = fake_ns;

    return pl_lane_wait(t->s, wake_fd, fake_ns + 4000000, &due_ns, 1000000, lanes, count, readings);
}

static void test_lane_wait(void)
{
    static const int64_t BEGIN_NS = 5000000000;
    tree *t = open_tree(10);
    pl_lane_reading readings[2];
    pl_quiet_lane lanes[2];
    uint64_t before_ns, errors = all_errors(t);
    int64_t due_ns;
    uint32_t lane;
    int wake[2];

    make_full_group(t, "a");
    CHECK_EQUAL(pipe(wake), 0);
    CHECK_EQUAL(pl_lane_add(t->s, "a/cpu.pressure", &lane), PL_OK);
    CHECK_EQUAL(pl_lane_add(t->s, "a/memory.pressure", &lane), PL_OK);

    /* All quiet: until the moment, and the newest reading is the one to compare with. */
    fake_ns = BEGIN_NS;
    lanes[0] = calm(0);
    lanes[1] = calm(1);
    due_ns = BEGIN_NS + 1;
    CHECK_EQUAL(pl_lane_wait(t->s, wake[0], BEGIN_NS + 10, &due_ns, 4, lanes, 2, readings), 0);
    CHECK_EQUAL(fake_ns, BEGIN_NS + 10);
    CHECK_EQUAL(due_ns, BEGIN_NS + 13);
    CHECK_EQUAL(lanes[0].monotonic_ns, BEGIN_NS + 9);
    CHECK_EQUAL(lanes[1].monotonic_ns, BEGIN_NS + 9);
    /* At the moment itself nothing is read, and what has passed is not made up for. */
    CHECK_EQUAL(pl_lane_wait(t->s, wake[0], BEGIN_NS + 13, &due_ns, 4, lanes, 2, readings), 0);
    CHECK_EQUAL(due_ns, BEGIN_NS + 13);
    CHECK_EQUAL(lanes[0].monotonic_ns, BEGIN_NS + 9);
    fake_ns = BEGIN_NS + 23;
    CHECK_EQUAL(pl_lane_wait(t->s, wake[0], BEGIN_NS + 24, &due_ns, 4, lanes, 2, readings), 0);
    CHECK_EQUAL(due_ns, BEGIN_NS + 25);
    CHECK_EQUAL(lanes[0].monotonic_ns, BEGIN_NS + 23);
    /* A signal ends no wait. */
    interrupted_waits = 3;
    CHECK_EQUAL(pl_lane_wait(t->s, wake[0], BEGIN_NS + 30, &due_ns, 4, lanes, 2, readings), 0);
    CHECK_EQUAL(fake_ns, BEGIN_NS + 30);
    CHECK_EQUAL(lanes[0].monotonic_ns, BEGIN_NS + 29);

    /* One waited for half of the time: told, with the others, and what it was compared with stays. */
    lanes[0] = calm(0);
    lanes[1] = calm(1);
    lanes[1].some_usec -= 500000;
    before_ns = lanes[1].monotonic_ns;
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 2, readings), 2);
    CHECK_EQUAL(readings[0].lane, 0);
    CHECK_EQUAL(readings[1].lane, 1);
    CHECK_EQUAL(readings[1].status, PL_OK);
    CHECK_EQUAL(readings[1].some_usec, 987654);
    CHECK_EQUAL(readings[1].monotonic_ns, BEGIN_NS + 30);
    CHECK_EQUAL(lanes[1].monotonic_ns, before_ns);
    CHECK_EQUAL(lanes[1].some_usec, 487654);
    lanes[1].most_ratio = 0.5; /* less than, so still not */
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 2, readings), 2);
    lanes[1].least_ratio = 0.5; /* at least, so it is */
    lanes[1].most_ratio = HUGE_VAL;
    CHECK_EQUAL(pl_lane_wait(t->s, wake[0], fake_ns + 1, &(int64_t){fake_ns}, 4, lanes, 2, readings), 0);
    CHECK_EQUAL(lanes[1].some_usec, 987654);
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 2, readings), 2); /* it waits no more */

    /* A total that went back, a time that did not go on, and more than a number can hold. */
    lanes[0] = calm(0);
    lanes[0].some_usec++;
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 1, readings), 1);
    lanes[0] = calm(0);
    lanes[0].monotonic_ns = (uint64_t)fake_ns;
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 1, readings), 1);
    write_at(t, "a", "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=18446744073709551615\n");
    lanes[0] = calm(0);
    lanes[0].most_ratio = HUGE_VAL;
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 1, readings), 1);

    /* One that cannot be read is told, and no error yet: whoever reads it again counts it. */
    failing_name = "cpu.pressure";
    failing_errno = ENODEV;
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 1, readings), 1);
    CHECK(readings[0].status != PL_OK);
    failing_name = NULL;
    write_at(t, "a", "cpu.pressure", "nonsense\n");
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 1, readings), 1);
    CHECK_EQUAL(readings[0].status, PL_E_PARSE);
    CHECK_EQUAL(all_errors(t), errors);

    /* Woken: before anything is read. Also where there is nothing to wait for any more. */
    CHECK_EQUAL(write(wake[1], "x", 1), 1);
    CHECK_EQUAL(wait_four_ms(t, wake[0], lanes, 1, readings), 0);
    CHECK_EQUAL(wait_four_ms(t, FD_MAX - 1, lanes, 1, readings), 0);
    CHECK_EQUAL(fake_ns, BEGIN_NS + 31);

    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, &due_ns, 1, NULL, 0, NULL), 0);
    CHECK_EQUAL(pl_lane_wait(NULL, -1, 0, &due_ns, 1, NULL, 0, NULL), PL_E_ARG);
    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, NULL, 1, NULL, 0, NULL), PL_E_ARG);
    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, &due_ns, 0, NULL, 0, NULL), PL_E_ARG);
    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, &due_ns, 1, NULL, 1, readings), PL_E_ARG);
    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, &due_ns, 1, lanes, 1, NULL), PL_E_ARG);
    lanes[0].lane = 3;
    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, &due_ns, 1, lanes, 1, readings), PL_E_ARG);
    lanes[0].lane = 4;
    CHECK_EQUAL(pl_lane_wait(t->s, -1, 0, &due_ns, 1, lanes, 1, readings), PL_E_ARG);
    close(wake[0]);
    close(wake[1]);
    fake_ns = 0;
    close_tree(t);
}

static void test_limits(void)
{
    tree *t = open_tree(1000);
    pl_limits limits[SLOTS];
    uint64_t failed;
    unsigned used;

    make_full_group(t, "a");
    write_at(t, "a", "cpu.max", "150000 100000\n");
    write_at(t, "a", "memory.max", "18446744073709551615\n");
    make_group(t, "b");
    CHECK_EQUAL(pl_read_limits(t->s, limits, SLOTS), 0);
    CHECK_EQUAL(add(t, 1, "a"), PL_OK);
    CHECK_EQUAL(add(t, 3, "b"), PL_OK);
    used = count_fds(0);
    failed = all_errors(t);
    CHECK_EQUAL(pl_read_limits(t->s, limits, SLOTS), 2);
    CHECK_EQUAL(limits[0].slot, 1);
    CHECK_EQUAL(limits[0].status, PL_OK);
    CHECK(strcmp(limits[0].cpu_max, "150000 100000\n") == 0);
    CHECK(strcmp(limits[0].memory_max, "18446744073709551615\n") == 0);
    CHECK_EQUAL(limits[1].slot, 3);
    CHECK_EQUAL(limits[1].status, PL_OK);
    CHECK_EQUAL(limits[1].cpu_max[0], 0);
    CHECK_EQUAL(limits[1].memory_max[0], 0);
    CHECK_EQUAL(pl_read_limits(t->s, limits, 1), 1);
    CHECK_EQUAL(limits[0].slot, 1);

    /* as much as there is room for, its NUL among it, and a byte more */
    write_at(t, "a", "memory.max", "00000000000000000000012\n");
    CHECK_EQUAL(pl_read_limits(t->s, limits, 1), 1);
    CHECK_EQUAL(limits[0].status, PL_E_PARSE);
    write_at(t, "a", "memory.max", "0000000000000000000012\n");
    CHECK_EQUAL(pl_read_limits(t->s, limits, 1), 1);
    CHECK_EQUAL(limits[0].status, PL_OK);
    CHECK_EQUAL(limits[0].memory_max[23], 0);

    /* none is shed for it, and none is left open */
    failing_open_name = "cpu.max";
    failing_open_errno = EMFILE;
    failing_opens_left = UINT_MAX;
    CHECK_EQUAL(pl_read_limits(t->s, limits, SLOTS), 2);
    CHECK_EQUAL(limits[0].status, PL_E_LIMIT);
    CHECK_EQUAL(limits[1].status, PL_E_LIMIT);
    failing_open_name = NULL;
    failing_name = "memory.max";
    failing_errno = ENODEV;
    CHECK_EQUAL(pl_read_limits(t->s, limits, SLOTS), 2);
    CHECK_EQUAL(limits[0].status, PL_E_GONE);
    CHECK_EQUAL(limits[1].status, PL_OK); /* it has no such file */
    failing_name = NULL;
    CHECK_EQUAL(count_fds(0), used);
    CHECK_EQUAL(all_errors(t), failed);

    CHECK_EQUAL(pl_read_limits(t->s, NULL, 0), 0);
    CHECK_EQUAL(pl_read_limits(t->s, NULL, 1), PL_E_ARG);
    CHECK_EQUAL(pl_read_limits(NULL, limits, SLOTS), PL_E_ARG);
    close_tree(t);
}

static void test_descriptors_do_not_leak_and_close_at_exec(void)
{
    unsigned before = count_fds(0);
    unsigned before_with_flag = count_fds(1);
    tree *t = open_tree(1000);
    uint32_t lane;

    make_full_group(t, "a");
    for (int i = 0; i < 10000; i++) {
        if (add(t, (uint32_t)i % SLOTS, "a") != PL_OK)
            CHECK(0);
        if (i % 100 == 0)
            sweep(t, PL_SWEEP_SLOW);
        if (pl_remove(t->s, (uint32_t)i % SLOTS) != PL_OK)
            CHECK(0);
    }
    CHECK_EQUAL(count_fds(0), before + 1); /* the root */
    CHECK_EQUAL(t->s->slot_end, 0);
    CHECK_EQUAL(add(t, 7, "a"), PL_OK);
    CHECK_EQUAL(pl_lane_add(t->s, "a/cpu.pressure", &lane), PL_OK);
    sweep(t, PL_SWEEP_SLOW);
    CHECK_EQUAL(count_fds(0), before + 1 + 9 + 1);
    CHECK_EQUAL(count_fds(1), before_with_flag + 1 + 9 + 1);
    CHECK_EQUAL(open_files(t), 1 + 9 + 1);
    close_tree(t);
    CHECK_EQUAL(count_fds(0), before);
}

static void test_nothing_is_allocated_after_open(void)
{
    tree *t = open_tree(20);
    uint32_t gone[SLOTS];
    pl_lane_reading readings[4];
    pl_quiet_lane quiet;
    pl_limits limits[SLOTS];
    unsigned long before;
    unsigned long counted;
    uint32_t lane;
    pl_sweep_result result;
    char name[8];

    for (uint32_t i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        make_full_group(t, name);
    }
    before = allocations;
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "g%u", i);
        if (add(t, i, name) != PL_OK)
            abort();
    }
    pl_lane_add(t->s, "g0/cpu.pressure", &lane);
    for (uint32_t i = 0; i < 8; i++) {
        failing_name = i == 6 ? "cpu.stat" : NULL;
        failing_errno = ENODEV;
        pl_sweep(t->s, i % 4, &result);
        pl_lane_read(t->s, readings, 4);
        fake_ns = 5000000000;
        quiet = calm(lane);
        wait_four_ms(t, -1, &quiet, 1, readings);
        fake_ns = 0;
        pl_read_limits(t->s, limits, SLOTS);
    }
    pl_take_gone(t->s, gone, SLOTS);
    pl_remove(t->s, 0);
    counted = allocations;
    CHECK_EQUAL(counted, before);
    CHECK(before > 0); /* the counting works */
    close_tree(t);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: test_sampler SCRATCH_DIRECTORY SEED_FILE...\n");
        return 2;
    }
    scratch = argv[1];
    test_numbers();
    test_cpu_stat();
    test_pressure();
    test_memory_texts();
    test_cut_texts();
    test_guard_page(argc - 2, argv + 2);
    test_full_row();
    test_rings_wrap_and_go_on();
    test_bare_group();
    test_feature_off_while_alive();
    test_gone();
    test_unreadable_texts();
    test_forbidden_file_is_asked_for_each_minute_only();
    test_working_set_peak_between_slow_ticks();
    test_memory_stat_of_what_stands_still();
    test_fd_budget();
    test_emfile();
    test_emfile_on_cpu_stat_is_a_gap();
    test_add_refuses();
    test_open_refuses_what_does_not_fit();
    test_lanes();
    test_lane_wait();
    test_limits();
    test_descriptors_do_not_leak_and_close_at_exec();
    test_nothing_is_allocated_after_open();
    printf("%lu checks, %lu failed\n", checks, failures);
    return failures == 0 ? 0 : 1;
}
