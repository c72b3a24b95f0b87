// One loaded model behind a handle, shared by the exported functions (runtime.c) and the run (run.c).

#ifndef RUNTIME_H
#define RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "model.h"
#include "prompt.h"
#include "rkllm.h"

#define NO_TOKEN (-1)
#define LORA_COUNT 8

typedef enum { IDLE, RUNNING, ABORTING } State;

// `last`: the token said last, which is not evaluated, or NO_TOKEN. `is_open`: what is held ends in
// a turn of the model. `is_paused`: the callback gave 1. `keeps_output`: it did not release hidden states.
// `is_abort_due`: the next run is to end at once.
typedef struct {
    Model model;
    Template template;
    RKLLMParam param;
#if RKLLM_FAMILY >= 'G'
    RKLLMCallback* callback;
#else
    LLMResultCallback callback;
#endif
    int32_t last;
    bool is_open;
    bool is_paused;
    bool keeps_output;
    _Atomic State state;
    atomic_bool is_abort_due;
    bool has_thread;
    pthread_t thread;
    char* loras[LORA_COUNT];
} Runtime;

// One run, on the calling thread. `state` is RUNNING before and not IDLE afterwards.
int run_input(Runtime* runtime, const RKLLMInput* input, const RKLLMInferParam* asked, void* userdata);

#endif
