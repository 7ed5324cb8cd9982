/*
 * A load that does what two small files say: /control/cpu_millicores is how much CPU it wants, /control/memory_mib how
 * much memory it holds. A file that is not there means 0. CPU is wanted anew in each period of 100 ms by one process
 * per whole or begun core; what it did not get in a period it does not ask for later, so that contention does not pile
 * up. Memory is touched at up to so many MiB a turn (the argument), so that a rise takes time; it is given back at
 * once.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MAX_WORKERS 16
#define MAX_BYTES (1024 * MIB)
#define TURN_NANOSECONDS 100000000L
#define NANOSECONDS 1000000000LL

static long number_in(const char *path)
{
    FILE *file = fopen(path, "r");
    long number = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%ld", &number) != 1 || number < 0)
        number = 0;
    fclose(file);
    return number;
}

static long long now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * NANOSECONDS + time.tv_nsec;
}

/* Burns `millicores` (at most 1000) of one CPU, until killed. */
static void burn(long millicores)
{
    long long budget = TURN_NANOSECONDS / 1000 * millicores;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        long long end = now(CLOCK_MONOTONIC) + TURN_NANOSECONDS;
        long long used_up = now(CLOCK_PROCESS_CPUTIME_ID) + budget;
        long long rest;

        while (now(CLOCK_PROCESS_CPUTIME_ID) < used_up && now(CLOCK_MONOTONIC) < end) {
            for (volatile int turn = 0; turn < 1000; turn++) {
            }
        }
        rest = end - now(CLOCK_MONOTONIC);
        if (rest > 0)
            nanosleep(&(struct timespec){.tv_nsec = rest}, NULL);
    }
}

static long start(long millicores, pid_t *workers)
{
    long running = 0;

    while (millicores > 0 && running < MAX_WORKERS) {
        long part = millicores < 1000 ? millicores : 1000;
        pid_t child = fork();

        if (child == 0)
            burn(part);
        if (child < 0)
            break;
        workers[running++] = child;
        millicores -= part;
    }
    return running;
}

static void stop(long running, const pid_t *workers)
{
    for (long index = 0; index < running; index++) {
        kill(workers[index], SIGKILL);
        waitpid(workers[index], NULL, 0);
    }
}

int main(int count, char **arguments)
{
    size_t step_bytes = (count > 1 ? (size_t)atoi(arguments[1]) : 4) * MIB;
    pid_t workers[MAX_WORKERS];
    long running = 0;
    long present = 0;
    size_t held = 0;
    char *room = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (room == MAP_FAILED)
        return 1;
    for (;;) {
        long wanted = number_in("/control/cpu_millicores");
        size_t bytes = (size_t)number_in("/control/memory_mib") * MIB;

        if (bytes > MAX_BYTES)
            bytes = MAX_BYTES;
        if (wanted != present) {
            stop(running, workers);
            running = start(wanted, workers);
            present = wanted;
        }
        if (held < bytes) {
            size_t more = bytes - held < step_bytes ? bytes - held : step_bytes;

            memset(room + held, 1, more);
            held += more;
        } else if (held > bytes) {
            madvise(room + bytes, held - bytes, MADV_DONTNEED);
            held = bytes;
        }
        nanosleep(&(struct timespec){.tv_nsec = TURN_NANOSECONDS}, NULL);
    }
}
