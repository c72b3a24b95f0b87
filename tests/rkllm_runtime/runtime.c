// A stand-in for Rockchip's librkllmrt.so: the same C interface over a GGUF and libllama, for tests where no board is.
//
// What the real one does is taken from its header, manual and change log and from reports of users. Where those are
// silent a comment says "our reading". What it cannot do (embeddings, videos, batches, cross-attention) it refuses.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "runtime.h"

// Programs look for this text in the file to learn the version: it must be in it, whether or not it is printed.
__attribute__((used)) static const char banner[] = "RKLLM SDK (version: " RKLLM_RELEASE ", our stand-in)";

#define MODEL_MAGIC "GGUF"
#define NPU_CORES 3

// The values of 1.2.1b1, which was decompiled in public. It does not clear the struct: what is not set is what was in
// the caller's memory before.
RKLLMParam rkllm_createDefaultParam(void) {
    RKLLMParam param;
    memset(&param, 0xa5, sizeof param);
    param.max_context_len = 512;
    param.max_new_tokens = -1;
    param.skip_special_token = true;
    param.is_async = false;
    param.extend_param.base_domain_id = 0;
    param.top_k = 40;
    param.top_p = 0.9f;
    param.temperature = 0.8f;
    param.repeat_penalty = 1.1f;
    param.mirostat_tau = 5.0f;
    param.mirostat_eta = 0.1f;
#if RKLLM_FAMILY < 'G'
    param.img_start = param.img_end = param.img_content = "";
#endif
#if RKLLM_FAMILY >= 'D'
    param.n_keep = -1;
    param.extend_param.embed_flash = 1;
    param.extend_param.enabled_cpus_num = 4;
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    if (processors == 8) param.extend_param.enabled_cpus_mask = 0xf0;
    if (processors == 4) param.extend_param.enabled_cpus_mask = 0x0f;
#endif
#if RKLLM_FAMILY >= 'F'
    param.extend_param.n_batch = 1;
#endif
    return param;
}

static bool has_magic(const char* path) {
    char magic[sizeof MODEL_MAGIC] = "";
    FILE* file = fopen(path, "rb");
    bool is_read = file && fread(magic, sizeof MODEL_MAGIC - 1, 1, file) == 1;
    if (file) fclose(file);
    return is_read && strcmp(magic, MODEL_MAGIC) == 0;
}

// Our reading: what a caller leaves unset is undefined, so the stand-in refuses what nobody can have meant.
static int check_unset(const RKLLMParam* param) {
    const uint8_t* reserved = (const uint8_t*)param->extend_param.reserved;
    for (size_t i = 0; i < sizeof param->extend_param.reserved; i++)
        if (reserved[i]) return refuse("reserved[%zu] is not 0", i);
    if (param->frequency_penalty < 0 || param->frequency_penalty > 2) return refuse("frequency_penalty is not set");
    if (param->presence_penalty < 0 || param->presence_penalty > 2) return refuse("presence_penalty is not set");
    if (param->mirostat < 0 || param->mirostat > 2) return refuse("mirostat is not set");
#if RKLLM_FAMILY >= 'D'
    int count = __builtin_popcount(param->extend_param.enabled_cpus_mask);
    if (param->extend_param.enabled_cpus_num < NPU_CORES)
        return refuse("The number of enabled CPUs must be greater than or equal to the number of NPU cores");
    if (count != param->extend_param.enabled_cpus_num)
        return refuse("Mismatch between enabled CPUs mask and expected count");
#endif
#if RKLLM_FAMILY >= 'F'
    if (param->extend_param.use_cross_attn != 0) return refuse("the stand-in knows no cross-attention");
#endif
#if RKLLM_FAMILY >= 'G'
    uint8_t ignore_eos;
    memcpy(&ignore_eos, &param->ignore_eos_token, 1);
    if (ignore_eos > 1) return refuse("ignore_eos_token is not set");
#endif
    return 0;
}

static int check_param(const RKLLMParam* param) {
    if (!param->model_path || access(param->model_path, R_OK) != 0)
        return refuse("failed to open model file: %s", param->model_path ? param->model_path : "(null)");
    if (!has_magic(param->model_path)) return refuse("invalid rknn llm model magic");
    if (param->max_context_len <= 0) return refuse("max_context[%d] must be greater than 0", param->max_context_len);
#if RKLLM_FAMILY < 'G'
    // the real one crashes here (reported for 1.2.3)
    if (!param->img_start || !param->img_end || !param->img_content)
        return refuse("img_start, img_end and img_content must not be NULL");
#endif
#if RKLLM_FAMILY >= 'F'
    int rows = param->extend_param.n_batch;
    if (rows < 1 || rows > 100) return refuse("The n_batch must be between 1 and 100, but got %d", rows);
    if (rows > 1) return refuse("the stand-in knows no batches, n_batch must be 1");
#endif
    return check_unset(param);
}

static int open_model(Runtime* runtime) {
    const RKLLMParam* param = &runtime->param;
    if (!model_load(&runtime->model, param->model_path)) return refuse("failed to load the model");
    int limit = model_limit(&runtime->model);
    say('I', "rkllm-toolkit version: %s, max_context_limit: %d, npu_core_num: %d, target_platform: RK3588, "
             "model_dtype: W8A8", RKLLM_RELEASE, limit, NPU_CORES);
    if (param->max_context_len > limit)
        return refuse("max_context[%d] must be less than the model's max_context_limit[%d]", param->max_context_len,
                      limit);
    if (!model_start(&runtime->model, param->max_context_len)) return refuse("failed to malloc npu memory");
    return 0;
}

static void close_runtime(Runtime* runtime) {
    model_free(&runtime->model);
    template_free(&runtime->template);
    for (int i = 0; i < LORA_COUNT; i++) free(runtime->loras[i]);
    free(runtime);
}

// 1.1.x has no template: the caller writes the tags.
static void open_template(Runtime* runtime) {
    if (RKLLM_FAMILY >= 'D')
        template_read(&runtime->template, model_template(&runtime->model));
    else
        template_set_custom(&runtime->template, "", "", "");
    if (log_level() >= 2) {
        say('I', "system_prompt: \"%s\"", runtime->template.system);
        say('I', "prompt_prefix: \"%s\"", runtime->template.prefix);
        say('I', "prompt_postfix: \"%s\"", runtime->template.postfix);
    }
}

static void say_param(const RKLLMParam* param) {
    say('I', "Max Context Len: %d, Max New Tokens: %d", param->max_context_len, param->max_new_tokens);
    say('I', "Top K: %d, Top P: %.2f, Temperature: %.2f, Repeat Penalty: %.2f", param->top_k, (double)param->top_p,
        (double)param->temperature, (double)param->repeat_penalty);
    say('I', "Skip Special Token: %s, Is Async: %s", param->skip_special_token ? "true" : "false",
        param->is_async ? "true" : "false");
}

#if RKLLM_FAMILY >= 'G'
int rkllm_init(LLMHandle* handle, RKLLMParam* param, RKLLMCallback* callback) {
    bool has_callback = callback && callback->result_callback;
#else
int rkllm_init(LLMHandle* handle, RKLLMParam* param, LLMResultCallback callback) {
    bool has_callback = callback;
#endif
    if (!handle || !param || !has_callback) return refuse("rkllm_init: handle, param and callback must not be NULL");
    *handle = NULL;
    say('I', "rkllm-runtime version: %s, rknpu driver version: 0.9.8, platform: RK3588", RKLLM_RELEASE);
    if (fault_fires("old_driver"))
        say('W', "Warning: Your rknpu driver version is too low, please upgrade to 0.9.8.");
    if (fault_fires("init_crashes")) crash();
    if (fault_fires("init_fails")) {
        const char* line = getenv("RKLLM_STANDIN_LINE");
        return refuse("%s", line ? line : "failed to malloc npu memory, size: 4096, flags: 0x2");
    }
    if (log_level() >= 2) say_param(param);
    if (check_param(param) != 0) return -1;
    Runtime* runtime = calloc(1, sizeof *runtime);
    if (!runtime) return refuse("out of memory");
    runtime->param = *param;
    // Our reading: the struct is not copied. The header does not say, and so the caller must keep it.
    runtime->callback = callback;
    runtime->last = NO_TOKEN;
    if (open_model(runtime) != 0) {
        close_runtime(runtime);
        return -1;
    }
    runtime->param.model_path = NULL;
    open_template(runtime);
    *handle = runtime;
    return 0;
}

// Our reading: what needs the model is refused during a run, a second run too. The manual says one thing at a time.
static bool begin(Runtime* runtime) {
    State idle = IDLE;
    if (runtime && atomic_compare_exchange_strong(&runtime->state, &idle, RUNNING)) return true;
    refuse(runtime ? "the previous run is still in progress" : "the handle is NULL");
    return false;
}

static void ask_abort(Runtime* runtime) {
    State running = RUNNING;
    atomic_compare_exchange_strong(&runtime->state, &running, ABORTING);
}

static void end(Runtime* runtime) { atomic_store(&runtime->state, IDLE); }

static bool begin_run(Runtime* runtime, const RKLLMInput* input, const RKLLMInferParam* asked) {
    if (input && asked) return begin(runtime);
    refuse("rkllm_run: input and infer params must not be NULL");
    return false;
}

int rkllm_run(LLMHandle handle, RKLLMInput* rkllm_input, RKLLMInferParam* rkllm_infer_params, void* userdata) {
    Runtime* runtime = handle;
    if (!begin_run(runtime, rkllm_input, rkllm_infer_params)) return -1;
    if (atomic_exchange(&runtime->is_abort_due, false)) ask_abort(runtime);
    int status = run_input(runtime, rkllm_input, rkllm_infer_params, userdata);
    end(runtime);
    return status;
}

typedef struct {
    Runtime* runtime;
    RKLLMInput* input;
    RKLLMInferParam* asked;
    void* userdata;
} Call;

static void* work(void* data) {
    Call call = *(Call*)data;
    free(data);
    run_input(call.runtime, call.input, call.asked, call.userdata);
    end(call.runtime);
    return NULL;
}

static void join_thread(Runtime* runtime) {
    if (runtime->has_thread) pthread_join(runtime->thread, NULL);
    runtime->has_thread = false;
}

// Nothing of the input is copied: the caller keeps it until FINISH.
int rkllm_run_async(LLMHandle handle, RKLLMInput* rkllm_input, RKLLMInferParam* rkllm_infer_params, void* userdata) {
    Runtime* runtime = handle;
    if (!begin_run(runtime, rkllm_input, rkllm_infer_params)) return -1;
    join_thread(runtime);
    Call* call = malloc(sizeof *call);
    if (call) *call = (Call){runtime, rkllm_input, rkllm_infer_params, userdata};
    if (!call || pthread_create(&runtime->thread, NULL, work, call) != 0) {
        free(call);
        end(runtime);
        return refuse("failed to start a thread");
    }
    runtime->has_thread = true;
    return 0;
}

// It is seen between tokens, never inside the prefill. What one does that comes before a run is not known: it counts
// for nothing, or, with sticky_abort, for the next run.
int rkllm_abort(LLMHandle handle) {
    Runtime* runtime = handle;
    if (!handle) return refuse("the handle is NULL");
    if (fault_fires("early_abort")) return 0;
    if (fault_fires("sticky_abort") && atomic_load(&runtime->state) == IDLE) atomic_store(&runtime->is_abort_due, true);
    ask_abort(handle);
    return 0;
}

int rkllm_is_running(LLMHandle handle) {
    Runtime* runtime = handle;
    bool is_running = runtime && atomic_load(&runtime->state) != IDLE;
    return RKLLM_FAMILY >= 'G' ? is_running : !is_running;
}

// A run that blocks its caller cannot be ended from here: destroying below it is the caller's fault, and refused.
int rkllm_destroy(LLMHandle handle) {
    Runtime* runtime = handle;
    if (!runtime) return refuse("the handle is NULL");
    if (runtime->has_thread && pthread_equal(runtime->thread, pthread_self()))
        return refuse("rkllm_destroy inside a callback");
    if (runtime->has_thread) ask_abort(runtime);
    join_thread(runtime);
    if (!begin(runtime)) return -1;
    close_runtime(runtime);
    return 0;
}

// Only the names are kept: no adapter for the small model exists, and what it would write is not what is tested.
int rkllm_load_lora(LLMHandle handle, RKLLMLoraAdapter* lora_adapter) {
    Runtime* runtime = handle;
    if (!lora_adapter || !lora_adapter->lora_adapter_path || !lora_adapter->lora_adapter_name)
        return refuse("rkllm_load_lora: the adapter needs a path and a name");
    if (access(lora_adapter->lora_adapter_path, R_OK) != 0)
        return refuse("failed to open lora file: %s", lora_adapter->lora_adapter_path);
    if (!begin(runtime)) return -1;
    int free_row = 0;
    while (free_row < LORA_COUNT && runtime->loras[free_row]) free_row++;
    if (free_row < LORA_COUNT) runtime->loras[free_row] = strdup(lora_adapter->lora_adapter_name);
    end(runtime);
    return free_row < LORA_COUNT ? 0 : refuse("too many lora adapters");
}

static void forget(Runtime* runtime) {
    model_keep(&runtime->model, 0);
    runtime->last = NO_TOKEN;
    runtime->is_open = runtime->is_paused = false;
}

int rkllm_load_prompt_cache(LLMHandle handle, const char* prompt_cache_path) {
    Runtime* runtime = handle;
    if (!prompt_cache_path || access(prompt_cache_path, R_OK) != 0)
        return refuse("failed to open prompt cache: %s", prompt_cache_path ? prompt_cache_path : "(null)");
    if (!begin(runtime)) return -1;
    forget(runtime);
    bool is_loaded = model_restore(&runtime->model, prompt_cache_path);
    end(runtime);
    return is_loaded ? 0 : refuse("failed to load prompt cache: %s", prompt_cache_path);
}

int rkllm_release_prompt_cache(LLMHandle handle) {
    Runtime* runtime = handle;
    if (!begin(runtime)) return -1;
    forget(runtime);
    end(runtime);
    return 0;
}

#if RKLLM_FAMILY >= 'D'
// As measured: all goes, also where the system text is to be kept.
static int clear_cache(Runtime* runtime) {
    if (!begin(runtime)) return -1;
    forget(runtime);
    end(runtime);
    return 0;
}

int rkllm_set_chat_template(LLMHandle handle, const char* system_prompt, const char* prompt_prefix,
                            const char* prompt_postfix) {
    Runtime* runtime = handle;
    if (!begin(runtime)) return -1;
    say('W', "Calling rkllm_set_chat_template will disable the internal automatic chat template parsing, including "
             "enable_thinking");
    template_set_custom(&runtime->template, system_prompt, prompt_prefix, prompt_postfix);
    forget(runtime);
    end(runtime);
    return 0;
}
#endif

#if RKLLM_FAMILY >= 'F'
// Ranges are refused, also after a pause: nothing of ours uses them.
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt, int* start_pos, int* end_pos) {
    (void)keep_system_prompt;
    if (start_pos || end_pos) return refuse("the stand-in clears no ranges");
    return clear_cache(handle);
}

int rkllm_get_kv_cache_size(LLMHandle handle, int* cache_sizes) {
    Runtime* runtime = handle;
    if (!cache_sizes) return refuse("rkllm_get_kv_cache_size: cache_sizes is NULL");
    if (!begin(runtime)) return -1;
    cache_sizes[0] = runtime->model.held.count;
    end(runtime);
    return 0;
}

// Our reading: other tools are another system text, and so what is held goes.
int rkllm_set_function_tools(LLMHandle handle, const char* system_prompt, const char* tools,
                             const char* tool_response_str) {
    Runtime* runtime = handle;
    if (!begin(runtime)) return -1;
    bool has_template = runtime->template.kind == TEMPLATE_OWN;
    if (has_template) {
        template_set_tools(&runtime->template, system_prompt, tools, tool_response_str);
        forget(runtime);
    }
    end(runtime);
    return has_template ? 0 : refuse("Failed to set function tools, possibly because the chat_template is empty.");
}

int rkllm_set_cross_attn_params(LLMHandle handle, RKLLMCrossAttnParam* cross_attn_params) {
    (void)handle, (void)cross_attn_params;
    return refuse("the stand-in knows no cross-attention");
}
#elif RKLLM_FAMILY >= 'D'
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt) {
    (void)keep_system_prompt;
    return clear_cache(handle);
}
#endif
