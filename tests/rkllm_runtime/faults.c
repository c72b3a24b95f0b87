#define _GNU_SOURCE
#include "faults.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char* variable(const char* name) {
    char whole[64];
    snprintf(whole, sizeof whole, "RKLLM_STANDIN_%s", name);
    const char* value = getenv(whole);
    return value && *value ? value : NULL;
}

bool fault_fires(const char* name) {
    const char* asked = variable("FAULT");
    if (!asked || strcmp(asked, name) != 0) return false;
    const char* once = variable("FAULT_ONCE");
    return !once || unlink(once) == 0;
}

double setting(const char* name, double otherwise) {
    const char* value = variable(name);
    return value ? strtod(value, NULL) : otherwise;
}

void crash(void) {
    const char* line = variable("LINE");
    if (line) fprintf(stderr, "%s\n", line);
    int asked = (int)setting("SIGNAL", 0);
    if (asked) raise(asked);
    // volatile twice: else the compiler knows that it is NULL and may put another signal in its place
    volatile int* volatile nowhere = NULL;
    *nowhere = 0;
}

// raised: the nonsense of one processor is another's breakpoint (SIGTRAP on aarch64)
void execute_nonsense(void) { raise(SIGILL); }

void hang(void) {
    for (;;) pause();
}

double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void sleep_until_ms(double moment) {
    struct timespec until = {.tv_sec = (time_t)(moment / 1e3)};
    until.tv_nsec = (long)((moment - (double)until.tv_sec * 1e3) * 1e6);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) continue;
}

int log_level(void) {
    const char* level = getenv("RKLLM_LOG_LEVEL");
    return level ? atoi(level) : 0;
}

// Our reading: stdout. Nothing published says whether it is stdout or stderr. Whole lines at once, so that what
// other threads write does not come between.
static void write_line(char level, const char* format, va_list values) {
    flockfile(stdout);
    printf("%c rkllm: ", level);
    vprintf(format, values);
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
}

void say(char level, const char* format, ...) {
    va_list values;
    va_start(values, format);
    write_line(level, format, values);
    va_end(values);
}

int refuse(const char* format, ...) {
    va_list values;
    va_start(values, format);
    write_line('E', format, values);
    va_end(values);
    return -1;
}
