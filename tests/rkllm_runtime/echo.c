// A librkllmrt.so that runs nothing: it writes down each argument that it is called with, member by member, and answers
// with values of its own. It shows that a caller and this header mean the same, on any machine.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rkllm.h"

__attribute__((used)) static const char banner[] = "RKLLM SDK (version: " RKLLM_RELEASE ", our echo)";

#define RUN_TEXT "caf\xc3\xa9"

typedef struct {
    FILE* out;
    char* text;
    size_t length;
    RKLLMParam param;
#if RKLLM_FAMILY >= 'G'
    const RKLLMCallback* callback;
#else
    LLMResultCallback callback;
#endif
} Echo;

static Echo echo;

// All that was written since the last time, as lines of NAME VALUE. It is valid until the next call.
__attribute__((visibility("default"))) const char* echo_take(void) {
    static char* taken;
    free(taken);
    if (!echo.out) return taken = NULL;
    fclose(echo.out);
    echo.out = NULL;
    return taken = echo.text;
}

static FILE* out(void) {
    if (!echo.out) echo.out = open_memstream(&echo.text, &echo.length);
    return echo.out;
}

#define NUMBER(of, name) fprintf(out(), #name " %lld\n", (long long)(of)->name)
#define REAL(of, name) fprintf(out(), #name " %.9g\n", (double)(of)->name)
#define TEXT(of, name) fprintf(out(), #name " %s\n", (of)->name ? (of)->name : "(null)")
#define GIVEN_TEXT(name) fprintf(out(), #name " %s\n", name ? name : "(null)")
#define GIVEN_POINTER(name) fprintf(out(), #name " %s\n", name ? "given" : "(null)")

static int called(const char* function, LLMHandle handle) {
    fprintf(out(), "%s %s\n", function, handle == &echo ? "handle" : "another handle");
    return 0;
}

// The defaults by which a caller can tell the layout.
RKLLMParam rkllm_createDefaultParam(void) {
    RKLLMParam param;
    memset(&param, 0xa5, sizeof param);
    param.top_p = 0.9f;
    param.temperature = 0.8f;
#if RKLLM_FAMILY >= 'D'
    param.extend_param.enabled_cpus_num = 4;
#endif
    return param;
}

static void write_extended(const RKLLMExtendParam* param) {
    NUMBER(param, base_domain_id);
#if RKLLM_FAMILY >= 'D'
    NUMBER(param, embed_flash);
    NUMBER(param, enabled_cpus_num);
    NUMBER(param, enabled_cpus_mask);
#endif
#if RKLLM_FAMILY >= 'F'
    NUMBER(param, n_batch);
    NUMBER(param, use_cross_attn);
#endif
    int set = 0;
    for (size_t i = 0; i < sizeof param->reserved; i++) set += param->reserved[i] != 0;
    fprintf(out(), "reserved %d\n", set);
}

static void write_param(const RKLLMParam* param) {
    TEXT(param, model_path);
    NUMBER(param, max_context_len);
    NUMBER(param, max_new_tokens);
    NUMBER(param, top_k);
#if RKLLM_FAMILY >= 'D'
    NUMBER(param, n_keep);
#endif
    REAL(param, top_p);
    REAL(param, temperature);
    REAL(param, repeat_penalty);
    REAL(param, frequency_penalty);
    REAL(param, presence_penalty);
    NUMBER(param, mirostat);
    REAL(param, mirostat_tau);
    REAL(param, mirostat_eta);
    NUMBER(param, skip_special_token);
#if RKLLM_FAMILY >= 'G'
    NUMBER(param, ignore_eos_token);
#endif
    NUMBER(param, is_async);
#if RKLLM_FAMILY < 'G'
    TEXT(param, img_start);
    TEXT(param, img_end);
    TEXT(param, img_content);
#endif
    write_extended(&param->extend_param);
}

#if RKLLM_FAMILY >= 'G'
int rkllm_init(LLMHandle* handle, RKLLMParam* param, RKLLMCallback* callback) {
    GIVEN_POINTER(callback->result_callback);
    GIVEN_POINTER(callback->result_userdata);
    GIVEN_POINTER(callback->tokenizer_callback);
    GIVEN_POINTER(callback->tokenizer_userdata);
    GIVEN_POINTER(callback->embed_callback);
    GIVEN_POINTER(callback->embed_userdata);
#else
int rkllm_init(LLMHandle* handle, RKLLMParam* param, LLMResultCallback callback) {
#endif
    write_param(param);
    echo.callback = callback;
    *handle = &echo;
    return 0;
}

int rkllm_load_lora(LLMHandle handle, RKLLMLoraAdapter* adapter) {
    TEXT(adapter, lora_adapter_path);
    TEXT(adapter, lora_adapter_name);
    REAL(adapter, scale);
    return called("load_lora", handle);
}

int rkllm_load_prompt_cache(LLMHandle handle, const char* prompt_cache_path) {
    GIVEN_TEXT(prompt_cache_path);
    return called("load_prompt_cache", handle);
}

int rkllm_release_prompt_cache(LLMHandle handle) { return called("release_prompt_cache", handle); }
int rkllm_destroy(LLMHandle handle) { return called("destroy", handle); }
int rkllm_abort(LLMHandle handle) { return called("abort", handle); }
int rkllm_is_running(LLMHandle handle) { return called("is_running", handle); }

#if RKLLM_FAMILY >= 'G'
#define IMAGE(input) (&(input)->image)
#else
#define IMAGE(input) (input)
#endif

// The embeddings are those of two numbers a token.
static void write_multimodal(const RKLLMMultiModalInput* input) {
    TEXT(input, prompt);
    NUMBER(IMAGE(input), n_image_tokens);
    size_t count = 2 * IMAGE(input)->n_image_tokens;
#if RKLLM_FAMILY >= 'E'
    NUMBER(IMAGE(input), n_image);
    NUMBER(IMAGE(input), image_width);
    NUMBER(IMAGE(input), image_height);
    count *= IMAGE(input)->n_image;
#endif
#if RKLLM_FAMILY >= 'G'
    TEXT(IMAGE(input), image_start);
    TEXT(IMAGE(input), image_end);
    TEXT(IMAGE(input), image_content);
    GIVEN_POINTER(input->video.video_embed);
#endif
#if RKLLM_FAMILY >= 'H'
    GIVEN_POINTER(input->audio.audio_embed);
#endif
    fputs("image_embed", out());
    for (size_t i = 0; i < count; i++) fprintf(out(), " %.9g", (double)IMAGE(input)->image_embed[i]);
    fputc('\n', out());
}

static void write_input(const RKLLMInput* input) {
#if RKLLM_FAMILY >= 'F'
    TEXT(input, role);
    NUMBER(input, enable_thinking);
#endif
    NUMBER(input, input_type);
    if (input->input_type == RKLLM_INPUT_PROMPT) TEXT(input, prompt_input);
    if (input->input_type == RKLLM_INPUT_MULTIMODAL) write_multimodal(&input->multimodal_input);
    if (input->input_type != RKLLM_INPUT_TOKEN) return;
    fputs("input_ids", out());
    for (size_t i = 0; i < input->token_input.n_tokens; i++) fprintf(out(), " %d", input->token_input.input_ids[i]);
    fputc('\n', out());
}

#if RKLLM_FAMILY >= 'G'
static void write_sampling(const RKLLMSamplingParam* sampling) {
    NUMBER(sampling, top_k);
    REAL(sampling, top_p);
    REAL(sampling, temperature);
    REAL(sampling, repeat_penalty);
    REAL(sampling, frequency_penalty);
    REAL(sampling, presence_penalty);
    NUMBER(sampling, mirostat);
    REAL(sampling, mirostat_tau);
    REAL(sampling, mirostat_eta);
}
#endif

static void write_asked(const RKLLMInferParam* asked) {
    NUMBER(asked, mode);
    if (asked->lora_params) TEXT(asked->lora_params, lora_adapter_name);
    if (asked->prompt_cache_params) {
        NUMBER(asked->prompt_cache_params, save_prompt_cache);
        TEXT(asked->prompt_cache_params, prompt_cache_path);
    }
#if RKLLM_FAMILY >= 'G'
    if (asked->sampling_params) write_sampling(asked->sampling_params);
    NUMBER(asked, max_new_tokens);
#endif
#if RKLLM_FAMILY >= 'D'
    NUMBER(asked, keep_history);
#endif
}

static void call_back(LLMCallState state, const char* text, int32_t token) {
    RKLLMResult result = {.text = text, .token_id = token};
#if RKLLM_FAMILY >= 'F'
    result.perf = (RKLLMPerfStat){1.5f, 2, 3.5f, 4, 5.5f};
#endif
#if RKLLM_FAMILY >= 'G'
    fprintf(out(), "answer %d\n", echo.callback->result_callback(&result, NULL, state));
#elif RKLLM_FAMILY >= 'F'
    fprintf(out(), "answer %d\n", echo.callback(&result, NULL, state));
#else
    echo.callback(&result, NULL, state);
#endif
}

int rkllm_run(LLMHandle handle, RKLLMInput* rkllm_input, RKLLMInferParam* rkllm_infer_params, void* userdata) {
    GIVEN_POINTER(userdata);
    write_input(rkllm_input);
    write_asked(rkllm_infer_params);
    call_back(RKLLM_RUN_NORMAL, RUN_TEXT, 0x12345678);
    call_back(RKLLM_RUN_FINISH, NULL, -1);
    return called("run", handle);
}

int rkllm_run_async(LLMHandle handle, RKLLMInput* rkllm_input, RKLLMInferParam* rkllm_infer_params, void* userdata) {
    return rkllm_run(handle, rkllm_input, rkllm_infer_params, userdata);
}

#if RKLLM_FAMILY >= 'D'
int rkllm_set_chat_template(LLMHandle handle, const char* system_prompt, const char* prompt_prefix,
                            const char* prompt_postfix) {
    GIVEN_TEXT(system_prompt);
    GIVEN_TEXT(prompt_prefix);
    GIVEN_TEXT(prompt_postfix);
    return called("set_chat_template", handle);
}
#endif

#if RKLLM_FAMILY >= 'F'
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt, int* start_pos, int* end_pos) {
    fprintf(out(), "keep_system_prompt %d\n", keep_system_prompt);
    GIVEN_POINTER(start_pos);
    GIVEN_POINTER(end_pos);
    return called("clear_kv_cache", handle);
}

int rkllm_get_kv_cache_size(LLMHandle handle, int* cache_sizes) {
    cache_sizes[0] = 0x01020304;
    return called("get_kv_cache_size", handle);
}

int rkllm_set_function_tools(LLMHandle handle, const char* system_prompt, const char* tools,
                             const char* tool_response_str) {
    GIVEN_TEXT(system_prompt);
    GIVEN_TEXT(tools);
    GIVEN_TEXT(tool_response_str);
    return called("set_function_tools", handle);
}

int rkllm_set_cross_attn_params(LLMHandle handle, RKLLMCrossAttnParam* cross_attn_params) {
    GIVEN_POINTER(cross_attn_params);
    return called("set_cross_attn_params", handle);
}
#elif RKLLM_FAMILY >= 'D'
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt) {
    fprintf(out(), "keep_system_prompt %d\n", keep_system_prompt);
    return called("clear_kv_cache", handle);
}
#endif
