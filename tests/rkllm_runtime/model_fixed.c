// The model of the stand-in where no libllama is: its tokens are bytes, and it says one sentence.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define REPLY "Hello! How can I help you?"
#define END 256
#define LIMIT 8192

struct llama_sampler {
    int said;
};

bool model_load(Model* model, const char* path) {
    (void)model, (void)path;
    return true;
}

int model_limit(const Model* model) {
    (void)model;
    return LIMIT;
}

const char* model_template(const Model* model) {
    (void)model;
    return "<|im_start|>";
}

bool model_start(Model* model, int context_tokens) {
    model->context_tokens = context_tokens;
    model->held.ids = calloc((size_t)context_tokens + 1, sizeof *model->held.ids);
    return model->held.ids;
}

void model_free(Model* model) {
    free(model->held.ids);
    *model = (Model){0};
}

Tokens model_tokenize(const Model* model, const char* text, bool adds_bos) {
    (void)model, (void)adds_bos;
    Tokens tokens = {.count = (int)strlen(text)};
    tokens.ids = malloc(((size_t)tokens.count + 1) * sizeof *tokens.ids);
    if (!tokens.ids) abort();
    for (int i = 0; i < tokens.count; i++) tokens.ids[i] = (unsigned char)text[i];
    return tokens;
}

int model_piece(const Model* model, int32_t token, char* bytes, int size) {
    (void)model;
    if (token == END) return snprintf(bytes, (size_t)size, "<|im_end|>");
    if (token < 0 || token > END) return 0;
    bytes[0] = (char)token;
    return 1;
}

bool model_is_end(const Model* model, int32_t token) {
    (void)model;
    return token == END;
}

bool model_is_control(const Model* model, int32_t token) { return model_is_end(model, token); }

int model_words(const Model* model, int32_t* words, int size) {
    (void)model, (void)words, (void)size;
    return 0;
}

void model_keep(Model* model, int count) {
    if (count < model->held.count) model->held.count = count;
}

void model_shift(Model* model, int count) { tokens_drop(&model->held, count); }

bool model_evaluate(Model* model, const int32_t* ids, int count) {
    if (model->held.count + count > model->context_tokens) return false;
    model_pretend(model, ids, count);
    return true;
}

int model_width(const Model* model) {
    (void)model;
    return 2;
}

bool model_evaluate_embeddings(Model* model, const int32_t* ids, const float* rows, int count) {
    (void)rows;
    return model_evaluate(model, ids, count);
}

bool model_evaluate_states(Model* model, const int32_t* ids, float* rows, int count) {
    for (int i = 0; i < count; i++) rows[2 * i] = (float)ids[i], rows[2 * i + 1] = (float)i;
    return model_evaluate(model, ids, count);
}

bool model_save(const Model* model, const char* path) {
    (void)model, (void)path;
    return false;
}

bool model_restore(Model* model, const char* path) {
    (void)model, (void)path;
    return false;
}

struct llama_sampler* sampler_open(const Model* model, const Sampling* sampling, uint32_t seed) {
    (void)model, (void)sampling, (void)seed;
    return calloc(1, sizeof(struct llama_sampler));
}

int32_t sampler_sample(struct llama_sampler* sampler, const Model* model) {
    (void)model;
    size_t next = (size_t)sampler->said++;
    return next < strlen(REPLY) ? (unsigned char)REPLY[next] : END;
}

void sampler_close(struct llama_sampler* sampler) { free(sampler); }
