/*
 * The files of the slots: which descriptors are kept, what is opened anew, what is given up, and one file read into
 * numbers. sampler.c includes this file; all functions are static.
 */
#ifndef PLIMSOLL_SLOT_FILES_H
#define PLIMSOLL_SLOT_FILES_H

#include "parsers.h"
#include "sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

enum {
    /* memory.stat, the largest, has some 75 lines of at most 45 bytes: 3.4 KB. A read that fills this is cut. */
    BUFFER_BYTES = 16384,
    /* Closed at once when the process or the machine is out of descriptors: a handful for whoever else needs one. */
    SPARE_FILES = 8,
};

static const char *const FILE_NAMES[PL_FILES] = {
    ".",           "cpu.stat",        "cpu.pressure", "memory.current", "memory.stat",
    "memory.peak", "memory.pressure", "io.pressure",  "memory.events",
};

/* Who keeps a descriptor when there are too few: the directory is the cgroup's identity, the fast files are read each
 * second, the others each ten. */
enum rank { RANK_SLOW, RANK_FAST, RANK_IDENTITY, RANKS };

typedef struct pl_slot {
    int fd[PL_FILES];  /* -1: not kept. No directory: the slot is not sampled */
    uint32_t given_up; /* bit per file: not tried again before PL_SWEEP_RETRY */
    char *base;        /* of the slot in the caller's memory */
    /* Heads, pending and seen copy the header's: a sweep writes to the mapped pages but never waits for one. */
    uint64_t raw_head;
    uint32_t raw_next; /* ring indices of the rows to be written next */
    uint32_t memory_next;
    uint64_t memory_head;
    uint64_t working_set_pending_bytes;
    uint64_t memory_peak_seen_bytes;
    uint32_t was_given_up; /* given_up before the last retry: refused again is no news and not counted */
    /* What memory.stat said last, and what cpu.stat and memory.current then did. */
    memory_stat stat;
    uint64_t stat_usage_usec;
    uint64_t stat_current_bytes;
    int has_stat;
} pl_slot;

struct pl_sampler {
    pl_geometry geometry;
    char *rings;
    pl_slot *slots;    /* geometry.max_slots of them */
    uint32_t slot_end; /* no slot from here on is sampled */
    uint32_t *gone;    /* slot numbers waiting for pl_take_gone, each at most once */
    uint32_t gone_count;
    int *lanes; /* descriptors, -1 = free */
    uint32_t max_lanes;
    int root;
    uint32_t fd_budget;
    uint32_t fd_limit; /* the budget, or less since a descriptor was refused; restored by PL_SWEEP_RETRY */
    uint32_t kept[RANKS];
    int last_errno;
    pl_stats stats;
    char buffer[BUFFER_BYTES];
};

static enum rank rank_of(int file)
{
    if (file == PL_FILE_DIRECTORY)
        return RANK_IDENTITY;
    return file <= PL_FILE_MEMORY_CURRENT ? RANK_FAST : RANK_SLOW;
}

static int is_sampled(const pl_slot *slot)
{
    return slot->fd[PL_FILE_DIRECTORY] >= 0;
}

static void keep_fd(pl_sampler *s, pl_slot *slot, int file, int fd)
{
    slot->fd[file] = fd;
    s->kept[rank_of(file)]++;
    s->stats.open_files++;
}

static void drop_fd(pl_sampler *s, pl_slot *slot, int file)
{
    if (slot->fd[file] < 0)
        return;
    close(slot->fd[file]);
    slot->fd[file] = -1;
    s->kept[rank_of(file)]--;
    s->stats.open_files--;
}

/* Close one kept file of this rank, from the last slots first. Slow only in the unusual case of too few descriptors. */
static int evict_one(pl_sampler *s, enum rank rank)
{
    if (s->kept[rank] == 0)
        return 0;
    for (uint32_t i = s->slot_end; i-- > 0;) {
        for (int file = PL_FILES - 1; file > PL_FILE_DIRECTORY; file--) {
            if (s->slots[i].fd[file] >= 0 && rank_of(file) == rank) {
                drop_fd(s, &s->slots[i], file);
                return 1;
            }
        }
    }
    return 0;
}

/* May one more descriptor be kept for this rank? Lower ranks make way for it. What was shed stays free for others, but
 * not from a directory: a cgroup without one cannot be watched at all. */
static int has_room(pl_sampler *s, enum rank rank)
{
    uint32_t limit = rank == RANK_IDENTITY ? s->fd_budget : s->fd_limit;

    while (s->stats.open_files >= limit) {
        int evicted = 0;

        for (int lower = RANK_SLOW; lower < (int)rank && !evicted; lower++)
            evicted = evict_one(s, (enum rank)lower);
        if (!evicted)
            return 0;
    }
    return 1;
}

/* The process has no descriptor left: keep fewer from now on, whoever they belong to. */
static int shed_files(pl_sampler *s)
{
    int closed = 0;

    while (closed < SPARE_FILES && (evict_one(s, RANK_SLOW) || evict_one(s, RANK_FAST)))
        closed++;
    s->fd_limit = s->stats.open_files;
    return closed > 0;
}

/* Why a call failed; the errno is kept for pl_last_errno. */
static int status_of(pl_sampler *s, int error)
{
    switch (error) {
    case ENODEV: /* a kept file of a removed cgroup, or of a feature switched off */
    case ENOENT:
        s->last_errno = error;
        return PL_E_GONE;
    case EOPNOTSUPP: /* pressure with psi=0 */
        return PL_E_ABSENT;
    case EMFILE:
    case ENFILE:
        s->last_errno = error;
        return PL_E_LIMIT;
    default:
        s->last_errno = error;
        return PL_E_IO;
    }
}

/* openat that answers "no descriptors" by closing some of ours and trying once more. */
static int open_at(pl_sampler *s, int directory, const char *name, int flags, int file, int *fd_out)
{
    int fd = openat(directory, name, flags | O_CLOEXEC);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        s->stats.errors[file][PL_CAUSE_LIMIT]++;
        if (!shed_files(s)) {
            errno = EMFILE;
            return status_of(s, EMFILE);
        }
        fd = openat(directory, name, flags | O_CLOEXEC);
    }
    if (fd < 0)
        return status_of(s, errno);
    *fd_out = fd;
    return PL_OK;
}

/* Read one file of a slot into the buffer. Its descriptor is kept if there is room, else closed again. */
static int read_file(pl_sampler *s, pl_slot *slot, int file, size_t *len)
{
    int fd = slot->fd[file];
    int error;
    ssize_t n;

    if (fd < 0) {
        int status = open_at(s, slot->fd[PL_FILE_DIRECTORY], FILE_NAMES[file], O_RDONLY, file, &fd);

        if (status != PL_OK)
            return status;
        if (has_room(s, rank_of(file)))
            keep_fd(s, slot, file, fd);
    }
    do {
        n = pread(fd, s->buffer, BUFFER_BYTES, 0);
    } while (n < 0 && errno == EINTR);
    error = n < 0 ? errno : 0;
    if (slot->fd[file] != fd)
        close(fd);
    if (n < 0)
        return status_of(s, error);
    if (n == BUFFER_BYTES)
        return PL_E_PARSE;
    *len = (size_t)n;
    return PL_OK;
}

/* Count a failure to open, read or parse a file other than cpu.stat, and stop trying where trying is no use. */
static int note_failure(pl_sampler *s, pl_slot *slot, int file, int status)
{
    uint64_t *errors = s->stats.errors[file];
    uint32_t bit = 1u << file;

    switch (status) {
    case PL_E_GONE:
    case PL_E_ABSENT:
        drop_fd(s, slot, file);
        slot->given_up |= bit;
        if ((slot->was_given_up & bit) == 0)
            errors[PL_CAUSE_ABSENT]++;
        return PL_E_ABSENT;
    case PL_E_PARSE:
        errors[PL_CAUSE_PARSE]++;
        return status;
    case PL_E_IO:
        if (s->last_errno == EACCES || s->last_errno == EPERM) { /* stays so: ask each minute, not each second */
            slot->given_up |= bit;
            if (slot->was_given_up & bit)
                return status;
        }
        errors[PL_CAUSE_IO]++;
        return status;
    default: /* PL_E_LIMIT is counted where the descriptor was refused */
        return status;
    }
}

/* read_file for all files but cpu.stat: failures are counted, what was given up is not tried. */
static int fetch(pl_sampler *s, pl_slot *slot, int file, size_t *len)
{
    int status;

    if (slot->given_up & (1u << file))
        return PL_E_ABSENT;
    status = read_file(s, slot, file, len);
    if (status != PL_OK)
        return note_failure(s, slot, file, status);
    slot->was_given_up &= ~(1u << file);
    return PL_OK;
}

static int fetch_pressure(pl_sampler *s, pl_slot *slot, int file, pressure *out)
{
    size_t len = 0;
    int status = fetch(s, slot, file, &len);

    if (status == PL_OK && parse_pressure(s->buffer, len, out) != PL_OK)
        status = note_failure(s, slot, file, PL_E_PARSE);
    return status;
}

static int fetch_number(pl_sampler *s, pl_slot *slot, int file, uint64_t *out)
{
    size_t len = 0;
    int status = fetch(s, slot, file, &len);

    if (status == PL_OK && parse_number(s->buffer, len, out) != PL_OK)
        status = note_failure(s, slot, file, PL_E_PARSE);
    return status;
}

static int fetch_memory_stat(pl_sampler *s, pl_slot *slot, memory_stat *out)
{
    size_t len = 0;
    int status = fetch(s, slot, PL_FILE_MEMORY_STAT, &len);

    if (status == PL_OK && parse_memory_stat(s->buffer, len, out) != PL_OK)
        status = note_failure(s, slot, PL_FILE_MEMORY_STAT, PL_E_PARSE);
    return status;
}

static int fetch_memory_events(pl_sampler *s, pl_slot *slot, memory_events *out)
{
    size_t len = 0;
    int status = fetch(s, slot, PL_FILE_MEMORY_EVENTS, &len);

    if (status == PL_OK && parse_memory_events(s->buffer, len, out) != PL_OK)
        status = note_failure(s, slot, PL_FILE_MEMORY_EVENTS, PL_E_PARSE);
    return status;
}

#endif
