// The C interface of librkllmrt.so in our words, one of six ABI families at a time.
//
// It is built from published sizes, offsets, names and signatures and holds no line of Rockchip's text. Give
// -DRKLLM_FAMILY='G' (C: 1.1.x, D: 1.2.0, E: 1.2.1b1, F: 1.2.1 to 1.2.3, G: 1.3.0, H: 1.3.1).
// tests/backends/rkllm_abi.json is what a compiler said of the real headers, and for H of this file, which follows a
// public binding; a test holds this file against it.

#ifndef RKLLM_H
#define RKLLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(RKLLM_FAMILY) || RKLLM_FAMILY < 'C'
#error "RKLLM_FAMILY is the letter of a layout, from 'C' on"
#endif

#if RKLLM_FAMILY >= 'D'
#define CPU0 (1 << 0)
#define CPU1 (1 << 1)
#define CPU2 (1 << 2)
#define CPU3 (1 << 3)
#define CPU4 (1 << 4)
#define CPU5 (1 << 5)
#define CPU6 (1 << 6)
#define CPU7 (1 << 7)
#endif

typedef void* LLMHandle;

typedef enum {
    RKLLM_RUN_NORMAL = 0,
    RKLLM_RUN_WAITING = 1,
    RKLLM_RUN_FINISH = 2,
    RKLLM_RUN_ERROR = 3,
#if RKLLM_FAMILY == 'C'
    RKLLM_RUN_GET_LAST_HIDDEN_LAYER = 4,
#endif
} LLMCallState;

typedef enum {
    RKLLM_INPUT_PROMPT = 0,
    RKLLM_INPUT_TOKEN = 1,
    RKLLM_INPUT_EMBED = 2,
    RKLLM_INPUT_MULTIMODAL = 3,
} RKLLMInputType;

typedef enum {
    RKLLM_INFER_GENERATE = 0,
    RKLLM_INFER_GET_LAST_HIDDEN_LAYER = 1,
#if RKLLM_FAMILY >= 'D'
    RKLLM_INFER_GET_LOGITS = 2,
#endif
} RKLLMInferMode;

typedef struct {
    int32_t base_domain_id;
#if RKLLM_FAMILY == 'C'
    uint8_t reserved[112];
#else
    int8_t embed_flash;
    int8_t enabled_cpus_num;
    uint32_t enabled_cpus_mask;
#if RKLLM_FAMILY >= 'F'
    uint8_t n_batch;
    int8_t use_cross_attn;
    uint8_t reserved[104];
#else
    uint8_t reserved[106];
#endif
#endif
} RKLLMExtendParam;

typedef struct {
    const char* model_path;
    int32_t max_context_len;
    int32_t max_new_tokens;
    int32_t top_k;
#if RKLLM_FAMILY >= 'D'
    int32_t n_keep;
#endif
    float top_p;
    float temperature;
    float repeat_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;
    bool skip_special_token;
#if RKLLM_FAMILY >= 'G'
    bool ignore_eos_token;
#endif
    bool is_async;
#if RKLLM_FAMILY < 'G'
    const char* img_start;
    const char* img_end;
    const char* img_content;
#endif
    RKLLMExtendParam extend_param;
} RKLLMParam;

typedef struct {
    const char* lora_adapter_path;
    const char* lora_adapter_name;
    float scale;
} RKLLMLoraAdapter;

typedef struct {
    float* embed;
    size_t n_tokens;
} RKLLMEmbedInput;

typedef struct {
    int32_t* input_ids;
    size_t n_tokens;
} RKLLMTokenInput;

#if RKLLM_FAMILY >= 'G'
typedef struct {
    char* prompt;
    struct {
        float* image_embed;
        size_t n_image_tokens;
        size_t n_image;
        const char* image_start;
        const char* image_end;
        const char* image_content;
        size_t image_width;
        size_t image_height;
    } image;
    struct {
        float* video_embed;
        size_t n_frame_tokens;
        size_t n_frame_per_video;
        size_t n_video;
        const char* video_start;
        const char* video_end;
        const char* video_content;
        size_t frame_width;
        size_t frame_height;
    } video;
#if RKLLM_FAMILY >= 'H'
    struct {
        float* audio_embed;
        size_t n_audio_tokens;
        size_t n_audio;
        const char* audio_start;
        const char* audio_end;
        const char* audio_content;
    } audio;
#endif
} RKLLMMultiModalInput;
#else
typedef struct {
    char* prompt;
    float* image_embed;
    size_t n_image_tokens;
#if RKLLM_FAMILY >= 'E'
    size_t n_image;
    size_t image_width;
    size_t image_height;
#endif
} RKLLMMultiModalInput;
// spelt so until 1.2.2
typedef RKLLMMultiModalInput RKLLMMultiModelInput;
#endif

typedef struct {
#if RKLLM_FAMILY >= 'F'
    const char* role;
    bool enable_thinking;
#endif
    RKLLMInputType input_type;
    union {
        const char* prompt_input;
        RKLLMEmbedInput embed_input;
        RKLLMTokenInput token_input;
        RKLLMMultiModalInput multimodal_input;
    };
} RKLLMInput;

typedef struct {
    const char* lora_adapter_name;
} RKLLMLoraParam;

typedef struct {
    int save_prompt_cache;
    const char* prompt_cache_path;
} RKLLMPromptCacheParam;

#if RKLLM_FAMILY >= 'F'
typedef struct {
    float* encoder_k_cache;
    float* encoder_v_cache;
    float* encoder_mask;
    int32_t* encoder_pos;
    int num_tokens;
} RKLLMCrossAttnParam;
#endif

#if RKLLM_FAMILY >= 'G'
typedef struct {
    int32_t top_k;
    float top_p;
    float temperature;
    float repeat_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;
} RKLLMSamplingParam;
#endif

typedef struct {
    RKLLMInferMode mode;
    RKLLMLoraParam* lora_params;
    RKLLMPromptCacheParam* prompt_cache_params;
#if RKLLM_FAMILY >= 'G'
    RKLLMSamplingParam* sampling_params;
#endif
#if RKLLM_FAMILY >= 'D'
    int keep_history;
#endif
#if RKLLM_FAMILY >= 'G'
    int32_t max_new_tokens;
#endif
} RKLLMInferParam;

typedef struct {
    const float* hidden_states;
    int embd_size;
    int num_tokens;
} RKLLMResultLastHiddenLayer;

#if RKLLM_FAMILY >= 'D'
typedef struct {
    const float* logits;
    int vocab_size;
    int num_tokens;
} RKLLMResultLogits;
#endif

#if RKLLM_FAMILY >= 'F'
typedef struct {
    float prefill_time_ms;
    int prefill_tokens;
    float generate_time_ms;
    int generate_tokens;
    float memory_usage_mb;
} RKLLMPerfStat;
#endif

typedef struct {
    const char* text;
    int32_t token_id;
    RKLLMResultLastHiddenLayer last_hidden_layer;
#if RKLLM_FAMILY >= 'D'
    RKLLMResultLogits logits;
#endif
#if RKLLM_FAMILY >= 'F'
    RKLLMPerfStat perf;
#endif
} RKLLMResult;

#if RKLLM_FAMILY >= 'F'
typedef int (*LLMResultCallback)(RKLLMResult* result, void* userdata, LLMCallState state);
#else
typedef void (*LLMResultCallback)(RKLLMResult* result, void* userdata, LLMCallState state);
#endif

#if RKLLM_FAMILY >= 'G'
typedef int (*LLMTokenizerCallback)(void* userdata, const char* text, int32_t text_len, int32_t* tokens,
                                    int32_t n_tokens_max);
typedef int (*LLMGetEmbedCallback)(void* userdata, int32_t* tokens, uint64_t num_tokens, void* embed, uint64_t len);

typedef struct {
    LLMResultCallback result_callback;
    void* result_userdata;
    LLMTokenizerCallback tokenizer_callback;
    void* tokenizer_userdata;
    LLMGetEmbedCallback embed_callback;
    void* embed_userdata;
} RKLLMCallback;
#endif

// nothing else leaves the library: it is compiled with hidden symbols
#pragma GCC visibility push(default)

RKLLMParam rkllm_createDefaultParam(void);
#if RKLLM_FAMILY >= 'G'
int rkllm_init(LLMHandle* handle, RKLLMParam* param, RKLLMCallback* callback);
#else
int rkllm_init(LLMHandle* handle, RKLLMParam* param, LLMResultCallback callback);
#endif
int rkllm_load_lora(LLMHandle handle, RKLLMLoraAdapter* lora_adapter);
int rkllm_load_prompt_cache(LLMHandle handle, const char* prompt_cache_path);
int rkllm_release_prompt_cache(LLMHandle handle);
int rkllm_destroy(LLMHandle handle);
int rkllm_run(LLMHandle handle, RKLLMInput* rkllm_input, RKLLMInferParam* rkllm_infer_params, void* userdata);
int rkllm_run_async(LLMHandle handle, RKLLMInput* rkllm_input, RKLLMInferParam* rkllm_infer_params, void* userdata);
int rkllm_abort(LLMHandle handle);
int rkllm_is_running(LLMHandle handle);
#if RKLLM_FAMILY >= 'F'
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt, int* start_pos, int* end_pos);
int rkllm_get_kv_cache_size(LLMHandle handle, int* cache_sizes);
int rkllm_set_function_tools(LLMHandle handle, const char* system_prompt, const char* tools,
                             const char* tool_response_str);
int rkllm_set_cross_attn_params(LLMHandle handle, RKLLMCrossAttnParam* cross_attn_params);
#elif RKLLM_FAMILY >= 'D'
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt);
#endif
#if RKLLM_FAMILY >= 'D'
int rkllm_set_chat_template(LLMHandle handle, const char* system_prompt, const char* prompt_prefix,
                            const char* prompt_postfix);
#endif

#pragma GCC visibility pop

#endif
