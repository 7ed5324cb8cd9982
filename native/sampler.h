/*
 * Plimsoll's sampler: reads cgroup v2 counters of many containers in one sweep and stores them raw.
 *
 * It reads, parses, stamps and stores; differences, resets and policy belong to agent/core. pl_lane_wait alone
 * compares, with bounds that it is given. No Python.h, no stdio, no threads, no global state, no allocation after
 * pl_open. The text between the two cffi marks is what cffi reads: nothing is declared twice.
 *
 * The rings live in memory that the caller gives (a mapped file): agent/sensing/ring_file.py owns the
 * file, its header and its slots; the sampler writes samples and memory rows into slots it was
 * told to fill, and publishes each by storing the ring's head last (release order). A process
 * killed between the two loses that one row and nothing else.
 */
#ifndef PLIMSOLL_SAMPLER_H
#define PLIMSOLL_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

/* cffi:begin */
#define PL_OK 0
#define PL_E_NOMEM (-1)
#define PL_E_ARG (-2)    /* an argument out of its range: a fault of the caller */
#define PL_E_GONE (-3)   /* the cgroup is gone: cpu.stat gave ENODEV, or its directory ENOENT */
#define PL_E_IO (-4)     /* any other errno; pl_last_errno tells it, but not of pl_lane_wait */
#define PL_E_PARSE (-5)  /* text not understood, or cut; the sample is a gap */
#define PL_E_ABSENT (-6) /* the file is not there or its feature is off */
#define PL_E_LIMIT (-7)  /* no file descriptor to be had */

#define PL_HAS_THROTTLED 1u        /* cpu controller on in this cgroup: nr_periods and so on are there */
#define PL_HAS_MEMORY 2u           /* memory controller on: memory.current is there */
#define PL_HAS_PRESSURE 4u         /* PSI on: cpu.pressure is there, no EOPNOTSUPP */
#define PL_HAS_FULL 8u             /* a "full" line is in cpu.pressure (cgroups: kernel 5.13) */
#define PL_HAS_MEMORY_STAT 16u     /* memory rows: memory.stat, so the working set is known */
#define PL_HAS_MEMORY_PEAK 32u     /* memory rows: memory.peak (kernel 5.19) */
#define PL_HAS_MEMORY_PRESSURE 64u /* memory rows: memory.pressure */
#define PL_HAS_IO_PRESSURE 128u    /* memory rows: io.pressure */
#define PL_HAS_MEMORY_EVENTS 256u  /* memory rows: memory.events */
#define PL_HAS_FILE_REFAULTS 512u  /* memory rows: memory.stat has workingset_refault_file (kernel 5.9) */

#define PL_SWEEP_SLOW 1u  /* write a memory row for every slot too (the 10 s tick) */
#define PL_SWEEP_RETRY 2u /* try again to open what was absent (each minute) */

/* The files a slot may hold open; also the row index of pl_stats.errors. */
#define PL_FILE_DIRECTORY 0
#define PL_FILE_CPU_STAT 1
#define PL_FILE_CPU_PRESSURE 2
#define PL_FILE_MEMORY_CURRENT 3
#define PL_FILE_MEMORY_STAT 4
#define PL_FILE_MEMORY_PEAK 5
#define PL_FILE_MEMORY_PRESSURE 6
#define PL_FILE_IO_PRESSURE 7
#define PL_FILE_MEMORY_EVENTS 8
#define PL_FILES 9

/* The column index of pl_stats.errors. */
#define PL_CAUSE_GONE 0
#define PL_CAUSE_ABSENT 1
#define PL_CAUSE_IO 2
#define PL_CAUSE_PARSE 3
#define PL_CAUSE_LIMIT 4
#define PL_CAUSES 5

typedef struct pl_sampler pl_sampler; /* opaque; one thread at a time, but see pl_lane_wait */

typedef struct pl_sample {         /* 64 bytes; counters as the kernel gives them */
    uint64_t monotonic_ns;         /* CLOCK_MONOTONIC just before this cgroup is read */
    uint64_t usage_usec;           /* cpu.stat */
    uint64_t throttled_usec;       /* cpu.stat; with PL_HAS_THROTTLED */
    uint64_t cpu_some_usec;        /* cpu.pressure, total= of "some"; with PL_HAS_PRESSURE */
    uint64_t cpu_full_usec;        /* of "full"; with PL_HAS_FULL */
    uint64_t memory_current_bytes; /* memory.current; with PL_HAS_MEMORY */
    uint32_t nr_periods;           /* low 32 bits: differences come out right across a wrap */
    uint32_t nr_throttled;         /* low 32 bits */
    int32_t status;                /* PL_OK, or why the counters above mean nothing */
    uint32_t has;                  /* PL_HAS_* */
} pl_sample;

typedef struct pl_memory_row {       /* 104 bytes; one row each slow tick */
    uint64_t monotonic_ns;           /* CLOCK_MONOTONIC just before memory.current is read */
    uint64_t memory_current_bytes;   /* read together with memory.stat; with PL_HAS_MEMORY */
    uint64_t inactive_file_bytes;    /* memory.stat; with PL_HAS_MEMORY_STAT. Not read again, but each minute, while
                                        usage_usec and memory.current are what they were when it was read */
    uint64_t anon_bytes;             /* memory.stat; with PL_HAS_MEMORY_STAT */
    uint64_t working_set_peak_bytes; /* largest current - inactive_file (floor 0) seen since the row before,
                                        this reading and those at new peaks included; with PL_HAS_MEMORY_STAT */
    uint64_t memory_peak_bytes;      /* memory.peak: since the cgroup was made; with PL_HAS_MEMORY_PEAK */
    uint64_t memory_some_usec;       /* memory.pressure totals; with PL_HAS_MEMORY_PRESSURE */
    uint64_t memory_full_usec;
    uint64_t io_some_usec;                  /* io.pressure total; with PL_HAS_IO_PRESSURE */
    uint64_t active_file_bytes;             /* memory.stat; with PL_HAS_FILE_REFAULTS, as the next */
    uint64_t workingset_refault_file_pages; /* pages of files read again after they were reclaimed, since it was made */
    uint32_t oom_kill;                      /* memory.events, low 32 bits; with PL_HAS_MEMORY_EVENTS */
    uint32_t high_events;                   /* memory.events "high", low 32 bits */
    int32_t status;                         /* PL_OK, or why the row means nothing */
    uint32_t has;                           /* PL_HAS_* */
} pl_memory_row;

/* One slot's header in the mapped file; its rings follow it (see pl_geometry). rings.py fills it. */
typedef struct pl_slot_header { /* 1,024 bytes */
    uint32_t checksum;          /* CRC-32 (zlib) of the bytes from generation to the end of path */
    uint32_t state;             /* 0 free, 1 in use */
    uint32_t generation;        /* which cgroup stands behind the slot: one more at each reuse */
    uint32_t path_length;
    uint64_t inode; /* of the cgroup's directory */
    uint64_t created_monotonic_ns;
    char path[768];    /* relative to the cgroup root, no leading slash, not NUL-terminated */
    uint64_t raw_head; /* rows ever written; row i lies at index i % length. Stored last, released. The row at index
                          head % length may be half written: with a full ring the oldest row is not to be trusted */
    uint64_t memory_head;
    uint64_t minute_head;
    uint64_t working_set_pending_bytes; /* running maximum for the next memory row */
    uint64_t memory_peak_seen_bytes;    /* memory.current when memory.stat was last read at a peak: growing
       past it by 1/64 and by 1 MiB reads memory.stat early */
    uint8_t reserved[184];
} pl_slot_header;

/* Where slots and rings lie in the caller's memory. Offsets in bytes; all multiples of 8. */
typedef struct pl_geometry {
    uint64_t first_slot_offset; /* of slot 0 from the base */
    uint64_t slot_stride;       /* from one slot to the next */
    uint32_t max_slots;
    uint32_t raw_offset;    /* from the slot's start to its pl_sample ring */
    uint32_t raw_length;    /* rows */
    uint32_t memory_offset; /* from the slot's start to its pl_memory_row ring */
    uint32_t memory_length; /* rows */
    uint32_t reserved;
} pl_geometry;

typedef struct pl_sweep_result {
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    uint64_t finished_ns;
    uint32_t sampled;     /* slots that got a sample with status PL_OK */
    uint32_t failed;      /* slots that got a sample with another status */
    uint32_t gone;        /* slots found gone in this sweep: closed, see pl_take_gone */
    uint32_t memory_rows; /* memory rows written */
} pl_sweep_result;

typedef struct pl_stats {
    uint64_t errors[9][5]; /* [PL_FILE_*][PL_CAUSE_*], since pl_open; ABSENT counts each time a file is given up;
                              a retry that finds it still missing is not counted again */
    uint32_t open_files;   /* descriptors held now, lanes and the root included */
    uint32_t slots;        /* slots being sampled */
} pl_stats;

typedef struct pl_lane_reading {
    uint64_t monotonic_ns;
    uint64_t some_usec; /* total= of "some" */
    int32_t status;     /* PL_OK, or why some_usec means nothing */
    uint32_t lane;
} pl_lane_reading;

typedef struct pl_quiet_lane {
    uint64_t monotonic_ns; /* of the reading that the next one is compared with; each quiet one takes its place */
    uint64_t some_usec;
    double least_ratio; /* quiet: the share of the time waited since then is at least this much, and less than */
    double most_ratio;  /* that */
    uint32_t lane;
    uint32_t reserved;
} pl_quiet_lane;

typedef struct pl_limits { /* 72 bytes: what the kernel holds one slot's cgroup to, as its files say it */
    char cpu_max[40];      /* filled up with NUL; empty: the cgroup has no such file */
    char memory_max[24];
    uint32_t slot;
    int32_t status; /* PL_OK, or why the texts mean nothing; PL_E_PARSE: longer than there is room for */
} pl_limits;

/*
 * Reserve everything. rings points to memory_bytes of writable memory laid out by *geometry, which stays
 * the caller's and outlives the sampler. At most fd_budget descriptors are kept; beyond it files are opened
 * anew for each read. *out is set on PL_OK only; free with pl_close.
 * PL_E_ARG (geometry does not fit), PL_E_IO (root cannot be opened), PL_E_NOMEM.
 */
int pl_open(const char *root, void *rings, uint64_t memory_bytes, const pl_geometry *geometry, uint32_t max_lanes,
            uint32_t fd_budget, pl_sampler **out);
void pl_close(pl_sampler *s); /* NULL is fine */

/*
 * Open the cgroup's directory and files and sample it into this slot from the next sweep on. The directory's
 * inode must be `inode` (else PL_E_GONE: another cgroup took the name meanwhile).
 * relative_path has no leading slash; "" is the root itself. Heads and running maxima in the slot's header are taken
 * over here and only written from then on. The slow files are opened when they are first read.
 */
int pl_add(pl_sampler *s, uint32_t slot, const char *relative_path, uint64_t inode);
int pl_remove(pl_sampler *s, uint32_t slot); /* close its files; its rings stay as they are */

/* Read every slot once, in slot order, over its oldest sample. Never allocates; one bad slot does not stop the others.
 */
int pl_sweep(pl_sampler *s, uint32_t what, pl_sweep_result *result);
/* Move up to cap slot numbers found gone into slots; returns how many. Their files are closed already. */
int pl_take_gone(pl_sampler *s, uint32_t *slots, uint32_t cap);

/* The fast lane: pressure totals alone. path is relative to the root, or absolute if it starts with a slash. */
int pl_lane_add(pl_sampler *s, const char *path, uint32_t *lane);
int pl_lane_remove(pl_sampler *s, uint32_t lane);
int pl_lane_read(pl_sampler *s, pl_lane_reading *readings, uint32_t cap); /* one per lane; returns how many */

/*
 * Wait until a moment, or until a descriptor can be read, and read these lanes meanwhile: at *due_ns and each step_ns
 * after it, as long as all of them are quiet. At the moment itself nothing is read any more. Both are CLOCK_MONOTONIC.
 * Other threads may use the sampler meanwhile, but must not add, remove or close.
 * readings has room for count. Returns 0 when the wait is over; or count: a reading of all these lanes, in their order,
 * in which one was not quiet or could not be read (which is not counted as an error). *due_ns is then when they are to
 * be read next. PL_E_ARG: a lane that there is not, or no step.
 */
int pl_lane_wait(pl_sampler *s, int wake_fd, int64_t until_ns, int64_t *due_ns, int64_t step_ns, pl_quiet_lane *lanes,
                 uint32_t count, pl_lane_reading *readings);

/* Open, read and close cpu.max and memory.max of every slot, in slot order; returns how many, or PL_E_ARG. */
int pl_read_limits(pl_sampler *s, pl_limits *limits, uint32_t cap);

void pl_get_stats(const pl_sampler *s, pl_stats *out);
int pl_last_errno(const pl_sampler *s); /* of the newest PL_E_IO, PL_E_LIMIT or PL_E_GONE */
/* The ring heads with acquire order: rows below the head are complete. */
uint64_t pl_head(const uint64_t *head);
/* cffi:end */

#endif
