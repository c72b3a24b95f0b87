// A GGUF through libllama, and which tokens of it are evaluated. It does not know of rkllm.h.

#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

// how many tokens are evaluated at once; the llama.cpp backend of the product has the same
#define BATCH_TOKENS 256

struct llama_model;
struct llama_context;
struct llama_sampler;
struct llama_vocab;

typedef struct {
    int32_t* ids;
    int count;
} Tokens;

typedef struct {
    int top_k;
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty;
    int mirostat;
    float mirostat_tau, mirostat_eta;
} Sampling;

// `held`: what is evaluated, from the first position on. `is_hollow`: it is only written down, as when paced.
typedef struct {
    struct llama_model* weights;
    struct llama_context* context;
    const struct llama_vocab* vocabulary;
    int context_tokens;
    Tokens held;
    bool is_hollow;
} Model;

bool model_load(Model* model, const char* path);
int model_limit(const Model* model);
// the template in the GGUF, or NULL
const char* model_template(const Model* model);
bool model_start(Model* model, int context_tokens);
void model_free(Model* model);

// Control tokens in the text are read as such. `adds_bos`: BOS in front where the GGUF says so, also of another BOS.
Tokens model_tokenize(const Model* model, const char* text, bool adds_bos);
Tokens tokens_join(Tokens first, Tokens second);
// takes so many away at the front
void tokens_drop(Tokens* tokens, int count);
// the bytes of one token into `bytes`; gives their number
int model_piece(const Model* model, int32_t token, char* bytes, int size);
bool model_is_end(const Model* model, int32_t token);
bool model_is_control(const Model* model, int32_t token);
// tokens that give plain ASCII words when told one after another, at most `size`; gives their number
int model_words(const Model* model, int32_t* words, int size);

int model_count_shared(const Model* model, Tokens tokens);
void model_keep(Model* model, int count);
// loses so many of the first tokens; the others move to the front
void model_shift(Model* model, int count);
// at most BATCH_TOKENS; nothing is held of what failed
bool model_evaluate(Model* model, const int32_t* ids, int count);
// floats of an embedding
int model_width(const Model* model);
// the same with embeddings, one after another; `ids` name them
bool model_evaluate_embeddings(Model* model, const int32_t* ids, const float* rows, int count);
// the same as `model_evaluate`; writes the last hidden state of each token to `rows`, one after another
bool model_evaluate_states(Model* model, const int32_t* ids, float* rows, int count);
// writes tokens down without evaluating them
void model_pretend(Model* model, const int32_t* ids, int count);

struct llama_sampler* sampler_open(const Model* model, const Sampling* sampling, uint32_t seed);
int32_t sampler_sample(struct llama_sampler* sampler, const Model* model);
void sampler_close(struct llama_sampler* sampler);

bool model_save(const Model* model, const char* path);
bool model_restore(Model* model, const char* path);

#endif
