// Prints what the compiler makes of rkllm.h, as JSON: sizes, offsets, enum values. Nothing of it is counted by hand.

#include <stdio.h>

#include "rkllm.h"

// a comma stands before each entry but the first of its object
static const char* comma = "";

#define OPEN(name) printf("%s\"%s\": {", comma, name), comma = ""
#define CLOSE() printf("}"), comma = ", "
#define NUMBER(name, value) printf("%s\"%s\": %ld", comma, name, (long)(value)), comma = ", "

#define STRUCT(type) OPEN(#type), NUMBER("size", sizeof(type)), NUMBER("align", _Alignof(type)), OPEN("fields")
#define END_STRUCT() CLOSE(), CLOSE()
#define FIELD(type, field)                                                                                    \
    printf("%s\"%s\": [%zu, %zu]", comma, #field, offsetof(type, field), sizeof(((type*)0)->field)), comma = ", "
#define VALUE(name) NUMBER(#name, name)

static void print_extend_param(void) {
    STRUCT(RKLLMExtendParam);
    FIELD(RKLLMExtendParam, base_domain_id);
#if RKLLM_FAMILY >= 'D'
    FIELD(RKLLMExtendParam, embed_flash);
    FIELD(RKLLMExtendParam, enabled_cpus_num);
    FIELD(RKLLMExtendParam, enabled_cpus_mask);
#endif
#if RKLLM_FAMILY >= 'F'
    FIELD(RKLLMExtendParam, n_batch);
    FIELD(RKLLMExtendParam, use_cross_attn);
#endif
    FIELD(RKLLMExtendParam, reserved);
    END_STRUCT();
}

static void print_param(void) {
    STRUCT(RKLLMParam);
    FIELD(RKLLMParam, model_path);
    FIELD(RKLLMParam, max_context_len);
    FIELD(RKLLMParam, max_new_tokens);
    FIELD(RKLLMParam, top_k);
#if RKLLM_FAMILY >= 'D'
    FIELD(RKLLMParam, n_keep);
#endif
    FIELD(RKLLMParam, top_p);
    FIELD(RKLLMParam, temperature);
    FIELD(RKLLMParam, repeat_penalty);
    FIELD(RKLLMParam, frequency_penalty);
    FIELD(RKLLMParam, presence_penalty);
    FIELD(RKLLMParam, mirostat);
    FIELD(RKLLMParam, mirostat_tau);
    FIELD(RKLLMParam, mirostat_eta);
    FIELD(RKLLMParam, skip_special_token);
#if RKLLM_FAMILY >= 'G'
    FIELD(RKLLMParam, ignore_eos_token);
#endif
    FIELD(RKLLMParam, is_async);
#if RKLLM_FAMILY < 'G'
    FIELD(RKLLMParam, img_start);
    FIELD(RKLLMParam, img_end);
    FIELD(RKLLMParam, img_content);
#endif
    FIELD(RKLLMParam, extend_param);
    END_STRUCT();
}

static void print_lora(void) {
    STRUCT(RKLLMLoraAdapter);
    FIELD(RKLLMLoraAdapter, lora_adapter_path);
    FIELD(RKLLMLoraAdapter, lora_adapter_name);
    FIELD(RKLLMLoraAdapter, scale);
    END_STRUCT();
    STRUCT(RKLLMLoraParam);
    FIELD(RKLLMLoraParam, lora_adapter_name);
    END_STRUCT();
}

#if RKLLM_FAMILY >= 'G'
static void print_multimodal(void) {
    STRUCT(RKLLMMultiModalInput);
    FIELD(RKLLMMultiModalInput, prompt);
    FIELD(RKLLMMultiModalInput, image);
    FIELD(RKLLMMultiModalInput, image.image_embed);
    FIELD(RKLLMMultiModalInput, image.n_image_tokens);
    FIELD(RKLLMMultiModalInput, image.n_image);
    FIELD(RKLLMMultiModalInput, image.image_start);
    FIELD(RKLLMMultiModalInput, image.image_end);
    FIELD(RKLLMMultiModalInput, image.image_content);
    FIELD(RKLLMMultiModalInput, image.image_width);
    FIELD(RKLLMMultiModalInput, image.image_height);
    FIELD(RKLLMMultiModalInput, video);
    FIELD(RKLLMMultiModalInput, video.video_embed);
    FIELD(RKLLMMultiModalInput, video.n_frame_tokens);
    FIELD(RKLLMMultiModalInput, video.n_frame_per_video);
    FIELD(RKLLMMultiModalInput, video.n_video);
    FIELD(RKLLMMultiModalInput, video.video_start);
    FIELD(RKLLMMultiModalInput, video.video_end);
    FIELD(RKLLMMultiModalInput, video.video_content);
    FIELD(RKLLMMultiModalInput, video.frame_width);
    FIELD(RKLLMMultiModalInput, video.frame_height);
#if RKLLM_FAMILY >= 'H'
    FIELD(RKLLMMultiModalInput, audio);
    FIELD(RKLLMMultiModalInput, audio.audio_embed);
    FIELD(RKLLMMultiModalInput, audio.n_audio_tokens);
    FIELD(RKLLMMultiModalInput, audio.n_audio);
    FIELD(RKLLMMultiModalInput, audio.audio_start);
    FIELD(RKLLMMultiModalInput, audio.audio_end);
    FIELD(RKLLMMultiModalInput, audio.audio_content);
#endif
    END_STRUCT();
}
#else
#if RKLLM_FAMILY == 'F'
#define MULTIMODAL RKLLMMultiModalInput
#else
#define MULTIMODAL RKLLMMultiModelInput
#endif
#define STRUCT_NAMED(type) STRUCT(type)

static void print_multimodal(void) {
    STRUCT_NAMED(MULTIMODAL);
    FIELD(MULTIMODAL, prompt);
    FIELD(MULTIMODAL, image_embed);
    FIELD(MULTIMODAL, n_image_tokens);
#if RKLLM_FAMILY >= 'E'
    FIELD(MULTIMODAL, n_image);
    FIELD(MULTIMODAL, image_width);
    FIELD(MULTIMODAL, image_height);
#endif
    END_STRUCT();
}
#endif

static void print_input(void) {
    STRUCT(RKLLMEmbedInput);
    FIELD(RKLLMEmbedInput, embed);
    FIELD(RKLLMEmbedInput, n_tokens);
    END_STRUCT();
    STRUCT(RKLLMTokenInput);
    FIELD(RKLLMTokenInput, input_ids);
    FIELD(RKLLMTokenInput, n_tokens);
    END_STRUCT();
    print_multimodal();
    STRUCT(RKLLMInput);
#if RKLLM_FAMILY >= 'F'
    FIELD(RKLLMInput, role);
    FIELD(RKLLMInput, enable_thinking);
#endif
    FIELD(RKLLMInput, input_type);
    FIELD(RKLLMInput, prompt_input);
    FIELD(RKLLMInput, embed_input);
    FIELD(RKLLMInput, token_input);
    FIELD(RKLLMInput, multimodal_input);
    END_STRUCT();
}

#if RKLLM_FAMILY >= 'F'
static void print_cross_attention(void) {
    STRUCT(RKLLMCrossAttnParam);
    FIELD(RKLLMCrossAttnParam, encoder_k_cache);
    FIELD(RKLLMCrossAttnParam, encoder_v_cache);
    FIELD(RKLLMCrossAttnParam, encoder_mask);
    FIELD(RKLLMCrossAttnParam, encoder_pos);
    FIELD(RKLLMCrossAttnParam, num_tokens);
    END_STRUCT();
}
#endif

#if RKLLM_FAMILY >= 'G'
static void print_sampling(void) {
    STRUCT(RKLLMSamplingParam);
    FIELD(RKLLMSamplingParam, top_k);
    FIELD(RKLLMSamplingParam, top_p);
    FIELD(RKLLMSamplingParam, temperature);
    FIELD(RKLLMSamplingParam, repeat_penalty);
    FIELD(RKLLMSamplingParam, frequency_penalty);
    FIELD(RKLLMSamplingParam, presence_penalty);
    FIELD(RKLLMSamplingParam, mirostat);
    FIELD(RKLLMSamplingParam, mirostat_tau);
    FIELD(RKLLMSamplingParam, mirostat_eta);
    END_STRUCT();
}

static void print_callback(void) {
    STRUCT(RKLLMCallback);
    FIELD(RKLLMCallback, result_callback);
    FIELD(RKLLMCallback, result_userdata);
    FIELD(RKLLMCallback, tokenizer_callback);
    FIELD(RKLLMCallback, tokenizer_userdata);
    FIELD(RKLLMCallback, embed_callback);
    FIELD(RKLLMCallback, embed_userdata);
    END_STRUCT();
}
#endif

static void print_infer_param(void) {
    STRUCT(RKLLMPromptCacheParam);
    FIELD(RKLLMPromptCacheParam, save_prompt_cache);
    FIELD(RKLLMPromptCacheParam, prompt_cache_path);
    END_STRUCT();
    STRUCT(RKLLMInferParam);
    FIELD(RKLLMInferParam, mode);
    FIELD(RKLLMInferParam, lora_params);
    FIELD(RKLLMInferParam, prompt_cache_params);
#if RKLLM_FAMILY >= 'G'
    FIELD(RKLLMInferParam, sampling_params);
#endif
#if RKLLM_FAMILY >= 'D'
    FIELD(RKLLMInferParam, keep_history);
#endif
#if RKLLM_FAMILY >= 'G'
    FIELD(RKLLMInferParam, max_new_tokens);
#endif
    END_STRUCT();
}

static void print_result(void) {
    STRUCT(RKLLMResultLastHiddenLayer);
    FIELD(RKLLMResultLastHiddenLayer, hidden_states);
    FIELD(RKLLMResultLastHiddenLayer, embd_size);
    FIELD(RKLLMResultLastHiddenLayer, num_tokens);
    END_STRUCT();
#if RKLLM_FAMILY >= 'D'
    STRUCT(RKLLMResultLogits);
    FIELD(RKLLMResultLogits, logits);
    FIELD(RKLLMResultLogits, vocab_size);
    FIELD(RKLLMResultLogits, num_tokens);
    END_STRUCT();
#endif
#if RKLLM_FAMILY >= 'F'
    STRUCT(RKLLMPerfStat);
    FIELD(RKLLMPerfStat, prefill_time_ms);
    FIELD(RKLLMPerfStat, prefill_tokens);
    FIELD(RKLLMPerfStat, generate_time_ms);
    FIELD(RKLLMPerfStat, generate_tokens);
    FIELD(RKLLMPerfStat, memory_usage_mb);
    END_STRUCT();
#endif
    STRUCT(RKLLMResult);
    FIELD(RKLLMResult, text);
    FIELD(RKLLMResult, token_id);
    FIELD(RKLLMResult, last_hidden_layer);
#if RKLLM_FAMILY >= 'D'
    FIELD(RKLLMResult, logits);
#endif
#if RKLLM_FAMILY >= 'F'
    FIELD(RKLLMResult, perf);
#endif
    END_STRUCT();
}

static void print_enums(void) {
    OPEN("LLMCallState");
    VALUE(RKLLM_RUN_NORMAL);
    VALUE(RKLLM_RUN_WAITING);
    VALUE(RKLLM_RUN_FINISH);
    VALUE(RKLLM_RUN_ERROR);
#if RKLLM_FAMILY == 'C'
    VALUE(RKLLM_RUN_GET_LAST_HIDDEN_LAYER);
#endif
    CLOSE();
    OPEN("RKLLMInputType");
    VALUE(RKLLM_INPUT_PROMPT);
    VALUE(RKLLM_INPUT_TOKEN);
    VALUE(RKLLM_INPUT_EMBED);
    VALUE(RKLLM_INPUT_MULTIMODAL);
    CLOSE();
    OPEN("RKLLMInferMode");
    VALUE(RKLLM_INFER_GENERATE);
    VALUE(RKLLM_INFER_GET_LAST_HIDDEN_LAYER);
#if RKLLM_FAMILY >= 'D'
    VALUE(RKLLM_INFER_GET_LOGITS);
#endif
    CLOSE();
}

int main(void) {
    printf("{");
    OPEN("structs");
    print_extend_param();
    print_param();
    print_lora();
    print_input();
#if RKLLM_FAMILY >= 'F'
    print_cross_attention();
#endif
#if RKLLM_FAMILY >= 'G'
    print_sampling();
    print_callback();
#endif
    print_infer_param();
    print_result();
    CLOSE();
    OPEN("enums");
    print_enums();
    CLOSE();
    printf("}\n");
}
