// A stand-in for Rockchip's librknnrt.so: an encoder of pictures whose outputs a test can compute from the pixels.
//
// Its model is a text: "RKNN stand-in", format (0: NCHW, 1: NHWC), height, width, tokens, width of a token, outputs.
// Value c of token t in output o is a byte of the input, (31 t + 7 c + 13 o) modulo their number, divided by 255.

#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define MAGIC "RKNN stand-in"
#define CHANNELS 3
#define MAX_OUTPUTS 8

typedef struct {
    uint32_t format, height, width, tokens, size, outputs;
    uint8_t* pixels;
    bool has_run;
} Encoder;

static Encoder* encoder_of(rknn_context context) { return (Encoder*)(uintptr_t)context; }

static uint32_t pixel_bytes(const Encoder* encoder) { return encoder->height * encoder->width * CHANNELS; }

static bool read_model(Encoder* encoder, const char* path) {
    FILE* file = fopen(path, "r");
    if (!file) return false;
    int found = fscanf(file, MAGIC " %u %u %u %u %u %u", &encoder->format, &encoder->height, &encoder->width,
                       &encoder->tokens, &encoder->size, &encoder->outputs);
    fclose(file);
    return found == 6 && encoder->outputs <= MAX_OUTPUTS;
}

int rknn_init(rknn_context* context, void* model, uint32_t size, uint32_t flag, void* extend) {
    if (size || flag || extend) return RKNN_ERR_PARAM_INVALID;  // a path is the only way here
    Encoder* encoder = calloc(1, sizeof *encoder);
    if (!encoder || !read_model(encoder, model)) {
        free(encoder);
        return RKNN_ERR_MODEL_INVALID;
    }
    *context = (rknn_context)(uintptr_t)encoder;
    return RKNN_SUCC;
}

int rknn_destroy(rknn_context context) {
    free(encoder_of(context)->pixels);
    free(encoder_of(context));
    return RKNN_SUCC;
}

static void set_dims(rknn_tensor_attr* attr, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t dims[] = {a, b, c, d};
    attr->n_dims = d ? 4 : 3;
    memcpy(attr->dims, dims, attr->n_dims * sizeof *dims);
    attr->n_elems = a * b * c * (d ? d : 1);
}

static int describe_input(const Encoder* encoder, rknn_tensor_attr* attr) {
    if (attr->index) return RKNN_ERR_INPUT_INVALID;
    attr->fmt = encoder->format;
    if (encoder->format == RKNN_TENSOR_NCHW)
        set_dims(attr, 1, CHANNELS, encoder->height, encoder->width);
    else
        set_dims(attr, 1, encoder->height, encoder->width, CHANNELS);
    return RKNN_SUCC;
}

static int describe_output(const Encoder* encoder, rknn_tensor_attr* attr) {
    if (attr->index >= encoder->outputs) return RKNN_ERR_OUTPUT_INVALID;
    attr->fmt = RKNN_TENSOR_UNDEFINED;
    set_dims(attr, 1, encoder->tokens, encoder->size, 0);
    return RKNN_SUCC;
}

int rknn_query(rknn_context context, rknn_query_cmd cmd, void* info, uint32_t size) {
    const Encoder* encoder = encoder_of(context);
    if (cmd == RKNN_QUERY_IN_OUT_NUM && size == sizeof(rknn_input_output_num)) {
        *(rknn_input_output_num*)info = (rknn_input_output_num){1, encoder->outputs};
        return RKNN_SUCC;
    }
    if (cmd == RKNN_QUERY_SDK_VERSION && size == sizeof(rknn_sdk_version)) {
        *(rknn_sdk_version*)info = (rknn_sdk_version){"2.3.2 (our stand-in)", "0.9.8"};
        return RKNN_SUCC;
    }
    if (size != sizeof(rknn_tensor_attr)) return RKNN_ERR_PARAM_INVALID;
    return cmd == RKNN_QUERY_INPUT_ATTR ? describe_input(encoder, info) : describe_output(encoder, info);
}

int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask) {
    return context && core_mask == RKNN_NPU_CORE_ALL ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
}

int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]) {
    Encoder* encoder = encoder_of(context);
    uint32_t size = pixel_bytes(encoder);
    bool is_picture = n_inputs == 1 && !inputs->index && !inputs->pass_through && inputs->size == size;
    if (!is_picture || inputs->type != RKNN_TENSOR_UINT8 || inputs->fmt != RKNN_TENSOR_NHWC)
        return RKNN_ERR_INPUT_INVALID;
    free(encoder->pixels);
    encoder->pixels = malloc(size);
    if (!encoder->pixels) abort();
    memcpy(encoder->pixels, inputs->buf, size);
    encoder->has_run = false;
    return RKNN_SUCC;
}

int rknn_run(rknn_context context, void* extend) {
    Encoder* encoder = encoder_of(context);
    if (!encoder->pixels || extend) return RKNN_ERR_CTX_INVALID;
    encoder->has_run = true;
    const char* log = getenv("RKLLM_STANDIN_ENCODER_RUNS");
    FILE* file = log ? fopen(log, "a") : NULL;
    if (file) fputs("run\n", file), fclose(file);
    return RKNN_SUCC;
}

static float* compute(const Encoder* encoder, uint32_t output) {
    uint32_t bytes = pixel_bytes(encoder);
    float* values = malloc(sizeof *values * encoder->tokens * encoder->size);
    if (!values) abort();
    for (uint32_t token = 0; token < encoder->tokens; token++)
        for (uint32_t i = 0; i < encoder->size; i++)
            values[token * encoder->size + i] = encoder->pixels[(31 * token + 7 * i + 13 * output) % bytes] / 255.0f;
    return values;
}

int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[], void* extend) {
    const Encoder* encoder = encoder_of(context);
    if (!encoder->has_run || extend || n_outputs != encoder->outputs) return RKNN_ERR_OUTPUT_INVALID;
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (!outputs[i].want_float || outputs[i].is_prealloc) return RKNN_ERR_OUTPUT_INVALID;
        outputs[i].buf = compute(encoder, i);
        outputs[i].size = (uint32_t)sizeof(float) * encoder->tokens * encoder->size;
    }
    return RKNN_SUCC;
}

int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]) {
    if (n_outputs != encoder_of(context)->outputs) return RKNN_ERR_OUTPUT_INVALID;
    for (uint32_t i = 0; i < n_outputs; i++) free(outputs[i].buf);
    return RKNN_SUCC;
}
