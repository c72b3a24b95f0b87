#include "model.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "llama.h"

// the same as in llama-cpp-python
#define PENALTY_TOKENS 64
#define MIROSTAT_CANDIDATES 100

static void drop_line(enum ggml_log_level level, const char* text, void* data) {
    (void)level, (void)text, (void)data;
}

bool model_load(Model* model, const char* path) {
    llama_log_set(drop_line, NULL);
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();
    params.use_extra_bufts = EXTRA_BUFFERS;
    params.n_gpu_layers = 0;
    model->weights = llama_model_load_from_file(path, params);
    if (!model->weights) return false;
    model->vocabulary = llama_model_get_vocab(model->weights);
    return true;
}

int model_limit(const Model* model) { return llama_model_n_ctx_train(model->weights); }

const char* model_template(const Model* model) { return llama_model_chat_template(model->weights, NULL); }

// What llama_cpp.Llama(path, n_ctx=…, n_batch=256) asks for: greedy tokens must be the same through both. It gives a
// prefill all processors; here it has half of them, for the logits are the same to the last bit and threads that wait
// for a busy processor cost much (measured, 0.3.36: 700 tokens on two processors with one busy, 0.1 s against 4.3 s).
bool model_start(Model* model, int context_tokens) {
    int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int threads = processors > 1 ? processors / 2 : 1;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)context_tokens;
    params.n_batch = params.n_ubatch = context_tokens < BATCH_TOKENS ? (uint32_t)context_tokens : BATCH_TOKENS;
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.no_perf = false;
    model->context = llama_init_from_model(model->weights, params);
    model->context_tokens = context_tokens;
    model->held.ids = calloc((size_t)context_tokens + 1, sizeof *model->held.ids);
    return model->context && model->held.ids;
}

void model_free(Model* model) {
    if (model->context) llama_free(model->context);
    if (model->weights) llama_model_free(model->weights);
    free(model->held.ids);
    *model = (Model){0};
}

Tokens model_tokenize(const Model* model, const char* text, bool adds_bos) {
    int length = (int)strlen(text);
    // a token is one byte at least; what is over is for BOS and a space that some vocabularies put in front
    int capacity = length + 8;
    Tokens tokens = {.ids = malloc((size_t)capacity * sizeof *tokens.ids)};
    if (!tokens.ids) abort();
    int written = llama_tokenize(model->vocabulary, text, length, tokens.ids + 1, capacity - 1, false, true);
    tokens.count = written < 0 ? 0 : written;
    llama_token bos = llama_vocab_bos(model->vocabulary);
    if (adds_bos && llama_vocab_get_add_bos(model->vocabulary) && bos != LLAMA_TOKEN_NULL) {
        tokens.ids[0] = bos;
        tokens.count += 1;
    } else {
        memmove(tokens.ids, tokens.ids + 1, (size_t)tokens.count * sizeof *tokens.ids);
    }
    return tokens;
}

int model_piece(const Model* model, int32_t token, char* bytes, int size) {
    int length = llama_token_to_piece(model->vocabulary, token, bytes, size, 0, true);
    return length < 0 ? 0 : length;
}

bool model_is_end(const Model* model, int32_t token) { return llama_vocab_is_eog(model->vocabulary, token); }

bool model_is_control(const Model* model, int32_t token) { return llama_vocab_is_control(model->vocabulary, token); }

static bool is_word(const char* bytes, int length) {
    int letters = 0;
    for (int i = bytes[0] == ' ' ? 1 : 0; i < length; i++, letters++)
        if (!islower((unsigned char)bytes[i])) return false;
    return letters >= 3;
}

// Some vocabularies have words with a space in front, others a token for the space alone: then the two take turns.
int model_words(const Model* model, int32_t* words, int size) {
    int found = 0;
    Tokens space = model_tokenize(model, " ", false);
    for (int32_t token = 0; token < llama_vocab_n_tokens(model->vocabulary) && found + 1 < size; token++) {
        char bytes[64];
        int length = model_piece(model, token, bytes, sizeof bytes);
        if (model_is_control(model, token) || !is_word(bytes, length)) continue;
        words[found++] = token;
        if (bytes[0] != ' ' && space.count == 1) words[found++] = space.ids[0];
    }
    free(space.ids);
    return found;
}

void model_keep(Model* model, int count) {
    llama_memory_t memory = llama_get_memory(model->context);
    if (count < model->held.count) model->held.count = count;
    // some architectures (recurrent ones) can only forget all
    if (!llama_memory_seq_rm(memory, 0, model->held.count, -1)) {
        llama_memory_clear(memory, true);
        model->held.count = 0;
    }
}

void model_shift(Model* model, int count) {
    llama_memory_t memory = llama_get_memory(model->context);
    if (!model->is_hollow) {
        llama_memory_seq_rm(memory, 0, 0, count);
        llama_memory_seq_add(memory, 0, count, -1, -count);
    }
    tokens_drop(&model->held, count);
}

bool model_evaluate(Model* model, const int32_t* ids, int count) {
    if (model->held.count + count > model->context_tokens) return false;
    struct llama_batch batch = llama_batch_get_one((llama_token*)ids, count);
    if (llama_decode(model->context, batch) != 0) {
        model_keep(model, model->held.count);
        return false;
    }
    model_pretend(model, ids, count);
    return true;
}

int model_width(const Model* model) { return llama_model_n_embd(model->weights); }

bool model_evaluate_embeddings(Model* model, const int32_t* ids, const float* rows, int count) {
    if (model->held.count + count > model->context_tokens) return false;
    struct llama_batch batch = llama_batch_init(count, model_width(model), 1);
    batch.n_tokens = count;
    memcpy(batch.embd, rows, sizeof *rows * (size_t)count * (size_t)model_width(model));
    for (int i = 0; i < count; i++) {
        batch.pos[i] = model->held.count + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = i == count - 1;
    }
    bool is_done = llama_decode(model->context, batch) == 0;
    llama_batch_free(batch);
    if (is_done)
        model_pretend(model, ids, count);
    else
        model_keep(model, model->held.count);
    return is_done;
}

bool model_evaluate_states(Model* model, const int32_t* ids, float* rows, int count) {
    llama_set_embeddings(model->context, true);
    bool is_done = model_evaluate(model, ids, count);
    const float* states = is_done ? llama_get_embeddings(model->context) : NULL;
    if (states) memcpy(rows, states, sizeof *rows * (size_t)count * (size_t)model_width(model));
    llama_set_embeddings(model->context, false);
    return states != NULL;
}

static void add_random(struct llama_sampler* chain, int vocabulary_size, const Sampling* sampling, uint32_t seed) {
    float tau = sampling->mirostat_tau, eta = sampling->mirostat_eta;
    struct llama_sampler* temperature = llama_sampler_init_temp(sampling->temperature);
    if (sampling->mirostat == 1) {
        llama_sampler_chain_add(chain, temperature);
        llama_sampler_chain_add(
            chain, llama_sampler_init_mirostat(vocabulary_size, seed, tau, eta, MIROSTAT_CANDIDATES));
    } else if (sampling->mirostat == 2) {
        llama_sampler_chain_add(chain, temperature);
        llama_sampler_chain_add(chain, llama_sampler_init_mirostat_v2(seed, tau, eta));
    } else {
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(sampling->top_k));
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(sampling->top_p, 1));
        llama_sampler_chain_add(chain, temperature);
        llama_sampler_chain_add(chain, llama_sampler_init_dist(seed));
    }
}

// Penalties count for greedy too, as in llama-cpp-python, and see the reply alone, not the prompt.
struct llama_sampler* sampler_open(const Model* model, const Sampling* sampling, uint32_t seed) {
    struct llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    int vocabulary_size = llama_vocab_n_tokens(model->vocabulary);
    llama_sampler_chain_add(
        chain, llama_sampler_init_penalties(vocabulary_size, PENALTY_TOKENS, sampling->repeat_penalty,
                                            sampling->frequency_penalty, sampling->presence_penalty));
    if (sampling->top_k == 1 || sampling->temperature <= 0)
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    else
        add_random(chain, vocabulary_size, sampling, seed);
    return chain;
}

int32_t sampler_sample(struct llama_sampler* sampler, const Model* model) {
    return llama_sampler_sample(sampler, model->context, -1);
}

void sampler_close(struct llama_sampler* sampler) {
    if (sampler) llama_sampler_free(sampler);
}

bool model_save(const Model* model, const char* path) {
    size_t count = (size_t)model->held.count;
    return !model->is_hollow && llama_state_seq_save_file(model->context, path, 0, model->held.ids, count) > 0;
}

bool model_restore(Model* model, const char* path) {
    model_keep(model, 0);
    size_t count = 0, capacity = (size_t)model->context_tokens;
    if (!llama_state_seq_load_file(model->context, path, 0, model->held.ids, capacity, &count)) {
        model_keep(model, 0);
        return false;
    }
    model->held.count = (int)count;
    model->is_hollow = false;
    return true;
}
