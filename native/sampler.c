/* The sampler behind sampler.h, which is its documentation: sweeps, slots, the fast lane. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH */
#endif

#include "sampler.h"

#include "slot_files.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

/* An early reading of memory.stat waits until memory.current has grown by this share of its last peak and by this
 * amount: a group that creeps up page by page would else cost a memory.stat (the dearest file) at every sweep, and
 * so the way from 1 MiB to 1 TiB takes at most some 950 of them. What is missed is under 1.6 % or 1 MiB, and only until
 * the slow tick. */
static const uint64_t PEAK_STEP_SHARE = 64;
static const uint64_t PEAK_STEP_BYTES = 1u << 20;

/* How many slots ahead rows are fetched: measured, 1, 2 and 4 differ by less than their spread except around 500. */
static const uint32_t PREFETCH_DISTANCE = 2;

_Static_assert(sizeof(pl_sample) == 64, "a raw row is one cache line");
_Static_assert(sizeof(pl_memory_row) == 104, "the layout of the state file");
_Static_assert(sizeof(pl_quiet_lane) == 40, "as agent/sensing/sampler.py fills it");
_Static_assert(sizeof(pl_limits) == 72, "as agent/sensing/sampler.py reads it");
_Static_assert(sizeof(pl_slot_header) == 1024, "the layout of the state file");
_Static_assert(sizeof(((pl_stats *)0)->errors) == sizeof(uint64_t) * PL_FILES * PL_CAUSES, "errors[9][5]");

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: the clock exists and the pointer is good */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static pl_slot_header *header_of(const pl_slot *slot)
{
    return (pl_slot_header *)(void *)slot->base;
}

static void close_slot(pl_sampler *s, uint32_t index)
{
    pl_slot *slot = &s->slots[index];

    if (!is_sampled(slot))
        return;
    for (int file = 0; file < PL_FILES; file++)
        drop_fd(s, slot, file);
    s->stats.slots--;
    while (s->slot_end > 0 && !is_sampled(&s->slots[s->slot_end - 1]))
        s->slot_end--;
}

static void forget_gone(pl_sampler *s, uint32_t index)
{
    for (uint32_t i = 0; i < s->gone_count; i++) {
        if (s->gone[i] == index) {
            s->gone[i] = s->gone[--s->gone_count];
            return;
        }
    }
}

/* ---- a sweep ---- */

/* cpu.stat into the row. Its failures are the sample's status; PL_E_GONE means the cgroup itself. */
static int sample_cpu_stat(pl_sampler *s, pl_slot *slot, pl_sample *row)
{
    uint64_t *errors = s->stats.errors[PL_FILE_CPU_STAT];
    size_t len = 0;
    cpu_stat got;
    int status = read_file(s, slot, PL_FILE_CPU_STAT, &len);

    if (status == PL_OK)
        status = parse_cpu_stat(s->buffer, len, &got);
    if (status == PL_E_ABSENT) { /* every cgroup has cpu.stat: it cannot be a feature that is off */
        s->last_errno = EOPNOTSUPP;
        status = PL_E_IO;
    }
    switch (status) {
    case PL_OK:
        row->usage_usec = got.usage_usec;
        if (got.has_throttled) {
            row->throttled_usec = got.throttled_usec;
            row->nr_periods = (uint32_t)got.nr_periods;
            row->nr_throttled = (uint32_t)got.nr_throttled;
            row->has |= PL_HAS_THROTTLED;
        }
        break;
    case PL_E_GONE:
        errors[PL_CAUSE_GONE]++;
        break;
    case PL_E_PARSE:
        errors[PL_CAUSE_PARSE]++;
        break;
    case PL_E_IO:
        errors[PL_CAUSE_IO]++;
        break;
    default:
        break;
    }
    return status;
}

/* Take a working set into the running maximum that the next memory row will carry. */
static void raise_pending(pl_slot *slot, uint64_t current_bytes, const memory_stat *stat)
{
    uint64_t working_set =
        current_bytes > stat->inactive_file_bytes ? current_bytes - stat->inactive_file_bytes : 0; /* floor 0 */

    if (working_set > slot->working_set_pending_bytes) {
        slot->working_set_pending_bytes = working_set;
        header_of(slot)->working_set_pending_bytes = working_set;
    }
    if (current_bytes > slot->memory_peak_seen_bytes) {
        slot->memory_peak_seen_bytes = current_bytes;
        header_of(slot)->memory_peak_seen_bytes = current_bytes;
    }
}

static int is_new_peak(const pl_slot *slot, uint64_t current_bytes)
{
    uint64_t seen = slot->memory_peak_seen_bytes;
    uint64_t step = seen / PEAK_STEP_SHARE > PEAK_STEP_BYTES ? seen / PEAK_STEP_SHARE : PEAK_STEP_BYTES;

    return current_bytes > seen && current_bytes - seen >= step;
}

static void push_sample(const pl_sampler *s, pl_slot *slot, const pl_sample *row)
{
    pl_sample *ring = (pl_sample *)(void *)(slot->base + s->geometry.raw_offset);

    ring[slot->raw_next] = *row;
    if (++slot->raw_next == s->geometry.raw_length)
        slot->raw_next = 0;
    __atomic_store_n(&header_of(slot)->raw_head, ++slot->raw_head, __ATOMIC_RELEASE);
}

static void push_memory_row(const pl_sampler *s, pl_slot *slot, const pl_memory_row *row)
{
    pl_memory_row *ring = (pl_memory_row *)(void *)(slot->base + s->geometry.memory_offset);

    ring[slot->memory_next] = *row;
    if (++slot->memory_next == s->geometry.memory_length)
        slot->memory_next = 0;
    __atomic_store_n(&header_of(slot)->memory_head, ++slot->memory_head, __ATOMIC_RELEASE);
}

/* memory.stat, the dearest file by far. Of a cgroup that has used no CPU time and no other memory since it was read,
 * it would say the same, but for pages that others touch: so PL_SWEEP_RETRY, each minute, forgets it. */
static int read_memory_stat(pl_sampler *s, pl_slot *slot, const pl_sample *row, uint64_t current_bytes,
                            memory_stat *out)
{
    int is_still = slot->has_stat && row->status == PL_OK && row->usage_usec == slot->stat_usage_usec &&
                   current_bytes == slot->stat_current_bytes;
    int status;

    if (is_still) {
        *out = slot->stat;
        return PL_OK;
    }
    status = fetch_memory_stat(s, slot, out);
    slot->has_stat = status == PL_OK && row->status == PL_OK;
    if (slot->has_stat) {
        slot->stat = *out;
        slot->stat_usage_usec = row->usage_usec;
        slot->stat_current_bytes = current_bytes;
    }
    return status;
}

/* The slow files, into one memory row; row holds the stamp and memory.current already. Nothing known: no row. */
static int sample_slow(pl_sampler *s, pl_slot *slot, const pl_sample *sample, pl_memory_row *row)
{
    memory_stat stat;
    memory_events events;
    pressure stalls;

    if (row->has & PL_HAS_MEMORY) { /* without memory.current the controller is off and its files are not there */
        if (read_memory_stat(s, slot, sample, row->memory_current_bytes, &stat) == PL_OK) {
            raise_pending(slot, row->memory_current_bytes, &stat);
            row->inactive_file_bytes = stat.inactive_file_bytes;
            row->anon_bytes = stat.anon_bytes;
            row->working_set_peak_bytes = slot->working_set_pending_bytes;
            row->has |= PL_HAS_MEMORY_STAT;
            if (stat.has_file_refaults) {
                row->active_file_bytes = stat.active_file_bytes;
                row->workingset_refault_file_pages = stat.workingset_refault_file_pages;
                row->has |= PL_HAS_FILE_REFAULTS;
            }
        }
        if (fetch_number(s, slot, PL_FILE_MEMORY_PEAK, &row->memory_peak_bytes) == PL_OK)
            row->has |= PL_HAS_MEMORY_PEAK;
        if (fetch_memory_events(s, slot, &events) == PL_OK) {
            row->oom_kill = (uint32_t)events.oom_kill;
            row->high_events = (uint32_t)events.high;
            row->has |= PL_HAS_MEMORY_EVENTS;
        }
    }
    if (fetch_pressure(s, slot, PL_FILE_MEMORY_PRESSURE, &stalls) == PL_OK) {
        row->memory_some_usec = stalls.some_usec;
        row->memory_full_usec = stalls.full_usec;
        row->has |= PL_HAS_MEMORY_PRESSURE;
    }
    if (fetch_pressure(s, slot, PL_FILE_IO_PRESSURE, &stalls) == PL_OK) {
        row->io_some_usec = stalls.some_usec;
        row->has |= PL_HAS_IO_PRESSURE;
    }
    if (row->has == 0)
        return 0;
    push_memory_row(s, slot, row);
    if (row->has & PL_HAS_MEMORY_STAT) { /* killed before this, the peak is told twice: harmless for a maximum */
        slot->working_set_pending_bytes = 0;
        header_of(slot)->working_set_pending_bytes = 0;
    }
    return 1;
}

static void sample_slot(pl_sampler *s, uint32_t index, uint32_t what, pl_sweep_result *result)
{
    pl_slot *slot = &s->slots[index];
    pl_sample row = {0};
    pl_memory_row memory_row = {0};
    pressure stalls;

    if (what & PL_SWEEP_RETRY) {
        slot->was_given_up = slot->given_up;
        slot->given_up = 0;
        slot->has_stat = 0;
    }
    row.monotonic_ns = monotonic_ns();
    row.status = sample_cpu_stat(s, slot, &row);
    if (row.status == PL_E_GONE) {
        close_slot(s, index);
        s->gone[s->gone_count++] = index;
        result->gone++;
        return;
    }
    if (row.status == PL_OK && fetch_pressure(s, slot, PL_FILE_CPU_PRESSURE, &stalls) == PL_OK) {
        row.cpu_some_usec = stalls.some_usec;
        row.has |= PL_HAS_PRESSURE;
        if (stalls.has_full) {
            row.cpu_full_usec = stalls.full_usec;
            row.has |= PL_HAS_FULL;
        }
    }
    if (what & PL_SWEEP_SLOW)
        memory_row.monotonic_ns = monotonic_ns();
    if (fetch_number(s, slot, PL_FILE_MEMORY_CURRENT, &memory_row.memory_current_bytes) == PL_OK) {
        memory_stat stat;

        memory_row.has |= PL_HAS_MEMORY;
        if (row.status == PL_OK) {
            row.memory_current_bytes = memory_row.memory_current_bytes;
            row.has |= PL_HAS_MEMORY;
        }
        if ((what & PL_SWEEP_SLOW) == 0 && is_new_peak(slot, memory_row.memory_current_bytes) &&
            read_memory_stat(s, slot, &row, memory_row.memory_current_bytes, &stat) == PL_OK)
            raise_pending(slot, memory_row.memory_current_bytes, &stat);
    }
    if (row.status == PL_OK)
        result->sampled++;
    else
        result->failed++;
    push_sample(s, slot, &row);
    if (what & PL_SWEEP_SLOW)
        result->memory_rows += (uint32_t)sample_slow(s, slot, &row, &memory_row);
}

/* Where a slot's next row goes lies a stride away from its neighbour's: two cold lines and two page walks, which the
 * system calls for the slots between can hide. Worth 1 to 5 % of a sweep of 250 to 1,000. */
static void prefetch_rows(const pl_sampler *s, const pl_slot *slot)
{
    if (slot->base == NULL)
        return;
    __builtin_prefetch(slot->base + s->geometry.raw_offset + (size_t)slot->raw_next * sizeof(pl_sample), 1);
    __builtin_prefetch(&header_of(slot)->raw_head, 1);
}

int pl_sweep(pl_sampler *s, uint32_t what, pl_sweep_result *result)
{
    if (s == NULL || result == NULL || (what & ~(PL_SWEEP_SLOW | PL_SWEEP_RETRY)) != 0)
        return PL_E_ARG;
    *result = (pl_sweep_result){.started_ns = monotonic_ns()};
    if (what & PL_SWEEP_RETRY)
        s->fd_limit = s->fd_budget;
    for (uint32_t i = 0; i < s->slot_end; i++) {
        if (i + PREFETCH_DISTANCE < s->slot_end)
            prefetch_rows(s, &s->slots[i + PREFETCH_DISTANCE]);
        if (is_sampled(&s->slots[i]))
            sample_slot(s, i, what, result);
    }
    result->finished_ns = monotonic_ns();
    return PL_OK;
}

int pl_take_gone(pl_sampler *s, uint32_t *slots, uint32_t cap)
{
    uint32_t count = 0;

    if (s == NULL || (slots == NULL && cap > 0))
        return PL_E_ARG;
    while (count < cap && s->gone_count > 0)
        slots[count++] = s->gone[--s->gone_count];
    return (int)count;
}

/* ---- opening and closing ---- */

/* Does a ring of `length` rows at `offset` lie behind the header and inside the slot? */
static int ring_fits(uint64_t stride, uint64_t offset, uint64_t length, uint64_t row_bytes)
{
    return offset % 8 == 0 && length > 0 && offset >= sizeof(pl_slot_header) && offset + length * row_bytes <= stride;
}

/* Sums and products of 32-bit numbers and row sizes stay far below 2^64, except where division is used. */
static int geometry_fits(const pl_geometry *g, const void *rings, uint64_t memory_bytes)
{
    uint64_t raw_end = g->raw_offset + (uint64_t)g->raw_length * sizeof(pl_sample);
    uint64_t memory_end = g->memory_offset + (uint64_t)g->memory_length * sizeof(pl_memory_row);

    return (uintptr_t)rings % 8 == 0 && g->first_slot_offset % 8 == 0 && g->slot_stride % 8 == 0 && g->max_slots > 0 &&
           ring_fits(g->slot_stride, g->raw_offset, g->raw_length, sizeof(pl_sample)) &&
           ring_fits(g->slot_stride, g->memory_offset, g->memory_length, sizeof(pl_memory_row)) &&
           (raw_end <= g->memory_offset || memory_end <= g->raw_offset) && g->first_slot_offset <= memory_bytes &&
           (memory_bytes - g->first_slot_offset) / g->slot_stride >= g->max_slots;
}

int pl_open(const char *root, void *rings, uint64_t memory_bytes, const pl_geometry *geometry, uint32_t max_lanes,
            uint32_t fd_budget, pl_sampler **out)
{
    pl_sampler *s = NULL;
    int status = PL_E_NOMEM;

    if (root == NULL || rings == NULL || geometry == NULL || out == NULL || max_lanes > INT32_MAX ||
        !geometry_fits(geometry, rings, memory_bytes) || geometry->max_slots > INT32_MAX)
        return PL_E_ARG;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        goto out;
    s->root = -1;
    s->geometry = *geometry;
    s->rings = rings;
    s->max_lanes = max_lanes;
    s->fd_budget = fd_budget;
    s->fd_limit = fd_budget;
    s->slots = calloc(geometry->max_slots, sizeof(*s->slots));
    s->gone = calloc(geometry->max_slots, sizeof(*s->gone));
    s->lanes = calloc((size_t)max_lanes + 1, sizeof(*s->lanes)); /* + 1: calloc(0) may give NULL */
    /* Before anything can fail: pl_close would take a zero for descriptor 0. */
    for (uint32_t i = 0; s->lanes != NULL && i < max_lanes; i++)
        s->lanes[i] = -1;
    if (s->slots == NULL || s->gone == NULL || s->lanes == NULL)
        goto out;
    for (uint32_t i = 0; i < geometry->max_slots; i++) {
        for (int file = 0; file < PL_FILES; file++)
            s->slots[i].fd[file] = -1;
    }
    s->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->root < 0) {
        status = PL_E_IO;
        goto out;
    }
    s->stats.open_files = 1;
    *out = s;
    s = NULL;
    status = PL_OK;
out:
    if (s != NULL) {
        int error = errno; /* without a handle, errno is all that tells why */

        pl_close(s);
        errno = error;
    }
    return status;
}

void pl_close(pl_sampler *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->slot_end; i++)
        close_slot(s, i);
    for (uint32_t i = 0; s->lanes != NULL && i < s->max_lanes; i++) {
        if (s->lanes[i] >= 0)
            close(s->lanes[i]);
    }
    if (s->root >= 0)
        close(s->root);
    free(s->lanes);
    free(s->gone);
    free(s->slots);
    free(s);
}

/* A directory's descriptor is kept or not had at all. */
static int open_directory(pl_sampler *s, const char *relative_path, uint64_t inode, int *fd_out)
{
    const char *path = relative_path[0] == '\0' ? "." : relative_path;
    struct stat found;
    int fd = -1;
    int status;

    if (!has_room(s, RANK_IDENTITY)) {
        s->last_errno = EMFILE;
        s->stats.errors[PL_FILE_DIRECTORY][PL_CAUSE_LIMIT]++;
        return PL_E_LIMIT;
    }
    status = open_at(s, s->root, path, O_PATH | O_DIRECTORY, PL_FILE_DIRECTORY, &fd);
    if (status == PL_OK && fstat(fd, &found) != 0)
        status = status_of(s, errno);
    if (status == PL_OK && found.st_ino != inode) {
        s->last_errno = ESTALE;
        status = PL_E_GONE;
    }
    if (status == PL_E_GONE)
        s->stats.errors[PL_FILE_DIRECTORY][PL_CAUSE_GONE]++;
    if (status == PL_E_IO)
        s->stats.errors[PL_FILE_DIRECTORY][PL_CAUSE_IO]++;
    if (status == PL_OK)
        *fd_out = fd;
    else if (fd >= 0)
        close(fd);
    return status;
}

int pl_add(pl_sampler *s, uint32_t index, const char *relative_path, uint64_t inode)
{
    pl_slot *slot;
    int fd = -1;
    int status;

    if (s == NULL || relative_path == NULL || relative_path[0] == '/' || index >= s->geometry.max_slots ||
        is_sampled(&s->slots[index]))
        return PL_E_ARG;
    status = open_directory(s, relative_path, inode, &fd);
    if (status != PL_OK)
        return status;
    forget_gone(s, index);
    slot = &s->slots[index];
    slot->given_up = 0;
    slot->was_given_up = 0;
    slot->has_stat = 0;
    slot->base = s->rings + s->geometry.first_slot_offset + index * s->geometry.slot_stride;
    slot->raw_head = header_of(slot)->raw_head;
    slot->raw_next = (uint32_t)(slot->raw_head % s->geometry.raw_length);
    slot->memory_head = header_of(slot)->memory_head;
    slot->memory_next = (uint32_t)(slot->memory_head % s->geometry.memory_length);
    slot->working_set_pending_bytes = header_of(slot)->working_set_pending_bytes;
    slot->memory_peak_seen_bytes = header_of(slot)->memory_peak_seen_bytes;
    keep_fd(s, slot, PL_FILE_DIRECTORY, fd);
    s->stats.slots++;
    if (index >= s->slot_end)
        s->slot_end = index + 1;
    /* The slow files are opened when they are first read: so the fast ones of slots added together lie together in the
     * kernel's tables, which is worth 1-2 % of a sweep of 1,000. */
    for (int file = PL_FILE_CPU_STAT; file <= PL_FILE_MEMORY_CURRENT; file++) {
        if (!has_room(s, rank_of(file)))
            continue;
        status = open_at(s, slot->fd[PL_FILE_DIRECTORY], FILE_NAMES[file], O_RDONLY, file, &fd);
        if (status == PL_OK) {
            keep_fd(s, slot, file, fd);
        } else if (file != PL_FILE_CPU_STAT) {
            note_failure(s, slot, file, status);
        } else if (status == PL_E_GONE) {
            s->stats.errors[PL_FILE_CPU_STAT][PL_CAUSE_GONE]++;
            close_slot(s, index);
            return PL_E_GONE;
        }
        /* Else cpu.stat cannot be opened now: each sweep tries and writes the reason into its row. */
    }
    return PL_OK;
}

int pl_remove(pl_sampler *s, uint32_t index)
{
    if (s == NULL || index >= s->geometry.max_slots)
        return PL_E_ARG;
    forget_gone(s, index);
    close_slot(s, index);
    return PL_OK;
}

/* ---- the fast lane ---- */

int pl_lane_add(pl_sampler *s, const char *path, uint32_t *lane)
{
    uint32_t free_lane = 0;
    int fd = -1;
    int status;

    if (s == NULL || path == NULL || path[0] == '\0' || lane == NULL)
        return PL_E_ARG;
    while (free_lane < s->max_lanes && s->lanes[free_lane] >= 0)
        free_lane++;
    if (free_lane == s->max_lanes || !has_room(s, RANK_IDENTITY)) {
        s->last_errno = free_lane == s->max_lanes ? ENOSPC : EMFILE;
        return PL_E_LIMIT;
    }
    /* An absolute path makes openat ignore the root. */
    status = open_at(s, s->root, path, O_RDONLY, PL_FILE_CPU_PRESSURE, &fd);
    if (status != PL_OK)
        return status == PL_E_GONE ? PL_E_ABSENT : status;
    s->lanes[free_lane] = fd;
    s->stats.open_files++;
    *lane = free_lane;
    return PL_OK;
}

int pl_lane_remove(pl_sampler *s, uint32_t lane)
{
    if (s == NULL || lane >= s->max_lanes)
        return PL_E_ARG;
    if (s->lanes[lane] >= 0) {
        close(s->lanes[lane]);
        s->lanes[lane] = -1;
        s->stats.open_files--;
    }
    return PL_OK;
}

/* A lane's total; what read says beside PL_OK, it says by errno. */
static int read_lane(int fd, char *buffer, size_t capacity, uint64_t *some_usec)
{
    pressure stalls;
    ssize_t n;

    do {
        n = pread(fd, buffer, capacity, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return PL_E_IO;
    if ((size_t)n == capacity || parse_pressure(buffer, (size_t)n, &stalls) != PL_OK)
        return PL_E_PARSE;
    *some_usec = stalls.some_usec;
    return PL_OK;
}

int pl_lane_read(pl_sampler *s, pl_lane_reading *readings, uint32_t cap)
{
    uint32_t count = 0;

    if (s == NULL || (readings == NULL && cap > 0))
        return PL_E_ARG;
    for (uint32_t lane = 0; lane < s->max_lanes && count < cap; lane++) {
        pl_lane_reading reading = {.lane = lane};

        if (s->lanes[lane] < 0)
            continue;
        reading.monotonic_ns = monotonic_ns();
        reading.status = read_lane(s->lanes[lane], s->buffer, BUFFER_BYTES, &reading.some_usec);
        if (reading.status == PL_E_IO) {
            reading.status = status_of(s, errno);
            if (reading.status == PL_E_GONE) /* without cpu.stat one cannot tell gone from off */
                reading.status = PL_E_ABSENT;
        }
        readings[count++] = reading;
    }
    return (int)count;
}

static bool is_quiet(const pl_quiet_lane *lane, const pl_lane_reading *reading)
{
    uint64_t waited_usec;
    double ratio;

    if (reading->status != PL_OK || reading->monotonic_ns <= lane->monotonic_ns || reading->some_usec < lane->some_usec)
        return false;
    waited_usec = reading->some_usec - lane->some_usec;
    if (waited_usec > UINT64_MAX / 1000u)
        return false;
    ratio = (double)(waited_usec * 1000u) / (double)(reading->monotonic_ns - lane->monotonic_ns);
    return ratio >= lane->least_ratio && ratio < lane->most_ratio;
}

/* Until a moment, or until the descriptor can be read or cannot be waited for, which is told. */
static bool is_woken(int wake_fd, int64_t until_ns)
{
    struct pollfd wake = {.fd = wake_fd, .events = POLLIN};

    for (;;) {
        int64_t left_ns = until_ns - (int64_t)monotonic_ns();
        struct timespec timeout = {0};
        int ready;

        if (left_ns > 0) {
            timeout.tv_sec = left_ns / 1000000000;
            timeout.tv_nsec = left_ns % 1000000000;
        }
        ready = ppoll(&wake, 1, &timeout, NULL);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
        if (ready == 0 && (int64_t)monotonic_ns() >= until_ns)
            return false;
    }
}

int pl_lane_wait(pl_sampler *s, int wake_fd, int64_t until_ns, int64_t *due_ns, int64_t step_ns, pl_quiet_lane *lanes,
                 uint32_t count, pl_lane_reading *readings)
{
    /* Not the sampler's: others may use that meanwhile. */
    char buffer[1024];

    if (s == NULL || due_ns == NULL || step_ns <= 0 || (count > 0 && (lanes == NULL || readings == NULL)))
        return PL_E_ARG;
    for (uint32_t i = 0; i < count; i++) {
        if (lanes[i].lane >= s->max_lanes || s->lanes[lanes[i].lane] < 0)
            return PL_E_ARG;
    }
    for (;;) {
        bool are_quiet = true;
        int64_t now_ns;

        if (is_woken(wake_fd, *due_ns < until_ns ? *due_ns : until_ns))
            return 0;
        now_ns = (int64_t)monotonic_ns();
        if (now_ns >= until_ns)
            return 0;
        *due_ns += step_ns * ((now_ns - *due_ns) / step_ns + 1);
        for (uint32_t i = 0; i < count; i++) {
            readings[i] = (pl_lane_reading){.lane = lanes[i].lane, .monotonic_ns = monotonic_ns()};
            readings[i].status = read_lane(s->lanes[lanes[i].lane], buffer, sizeof buffer, &readings[i].some_usec);
            are_quiet &= is_quiet(&lanes[i], &readings[i]);
        }
        if (!are_quiet)
            return (int)count;
        for (uint32_t i = 0; i < count; i++) {
            lanes[i].monotonic_ns = readings[i].monotonic_ns;
            lanes[i].some_usec = readings[i].some_usec;
        }
    }
}

/* ---- limits ---- */

/* A file's few bytes as they are. Where no descriptor is to be had no kept one makes way: it is asked again soon. */
static int read_text(pl_sampler *s, int directory, const char *name, char *text, size_t capacity)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    int error;
    ssize_t n;

    if (fd < 0) {
        int status = status_of(s, errno);

        return status == PL_E_GONE ? PL_OK : status;
    }
    do {
        n = pread(fd, s->buffer, BUFFER_BYTES, 0);
    } while (n < 0 && errno == EINTR);
    error = errno;
    close(fd);
    if (n < 0)
        return status_of(s, error);
    if ((size_t)n >= capacity)
        return PL_E_PARSE;
    memcpy(text, s->buffer, (size_t)n);
    return PL_OK;
}

int pl_read_limits(pl_sampler *s, pl_limits *limits, uint32_t cap)
{
    uint32_t count = 0;

    if (s == NULL || (limits == NULL && cap > 0))
        return PL_E_ARG;
    for (uint32_t i = 0; i < s->slot_end && count < cap; i++) {
        pl_limits *row = &limits[count];
        int directory = s->slots[i].fd[PL_FILE_DIRECTORY];

        if (!is_sampled(&s->slots[i]))
            continue;
        *row = (pl_limits){.slot = i};
        row->status = read_text(s, directory, "cpu.max", row->cpu_max, sizeof(row->cpu_max));
        if (row->status == PL_OK)
            row->status = read_text(s, directory, "memory.max", row->memory_max, sizeof(row->memory_max));
        count++;
    }
    return (int)count;
}

/* ---- asking ---- */

void pl_get_stats(const pl_sampler *s, pl_stats *out)
{
    *out = s->stats;
}

int pl_last_errno(const pl_sampler *s)
{
    return s->last_errno;
}

uint64_t pl_head(const uint64_t *head)
{
    return __atomic_load_n(head, __ATOMIC_ACQUIRE);
}
