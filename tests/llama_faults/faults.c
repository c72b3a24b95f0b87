// A libllama whose compiler has failed, in front of the real one: it dies of SIGILL at more than one token, as with GCC
// 12.2 on a processor with AMX, unless weights are not rearranged for the processor (or, built with ALWAYS, always).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

#include "llama.h"

static bool is_rearranged = true;

static void *find(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

static void die_of(int tokens) {
    if (tokens > 1 && (ALWAYS || is_rearranged)) raise(SIGILL);
}

struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params) {
    struct llama_model *(*load)(const char *, struct llama_model_params) = find(__func__);
    is_rearranged = params.use_extra_bufts;
    return load(path, params);
}

int32_t llama_decode(struct llama_context *context, struct llama_batch batch) {
    int32_t (*decode)(struct llama_context *, struct llama_batch) = find(__func__);
    die_of(batch.n_tokens);
    return decode(context, batch);
}

int32_t llama_encode(struct llama_context *context, struct llama_batch batch) {
    int32_t (*encode)(struct llama_context *, struct llama_batch) = find(__func__);
    die_of(batch.n_tokens);
    return encode(context, batch);
}

const char *llama_print_system_info(void) {
    static char text[4096];
    const char *(*print)(void) = find(__func__);
    snprintf(text, sizeof text, "%sAMX_INT8 = 1 | ", print());
    return text;
}
