// What goes wrong on demand, and the log. It does not know what a run is.
//
// All is asked for by environment variables that begin with RKLLM_STANDIN_ and are read at the moment they matter:
//   FAULT       init_fails, init_crashes, run_crashes, run_fails, illegal_instruction, no_finish, hang_in_prefill,
//               slow_prefill, wrong_eos, sticky_abort, early_abort (it comes before the run and is for nothing),
//               old_driver: one of them
//   LINE        what init_fails and a crash print
//   SIGNAL      by which a crash ends the process, by default SIGSEGV
//   FAULT_ONCE  a file: the fault comes only while it exists, and removes it
//   MS          how long slow_prefill sleeps before each batch
//   PACE        tokens per second that are paced and not computed
//   LATE        how many tokens are still written after an abort, as by an NPU that has begun them
//   SEED        of the sampler, by default 0

#ifndef FAULTS_H
#define FAULTS_H

#include <stdbool.h>

bool fault_fires(const char* name);
double setting(const char* name, double otherwise);

void crash(void);
void execute_nonsense(void);
void hang(void);

double now_ms(void);
void sleep_until_ms(double moment);

// RKLLM_LOG_LEVEL
int log_level(void);
__attribute__((format(printf, 2, 3))) void say(char level, const char* format, ...);
// says it at level E and gives -1
__attribute__((format(printf, 1, 2))) int refuse(const char* format, ...);

#endif
