// Lists of tokens, whichever model they are of.

#include <stdlib.h>
#include <string.h>

#include "model.h"

Tokens tokens_join(Tokens first, Tokens second) {
    Tokens whole = {.count = first.count + second.count};
    whole.ids = malloc(((size_t)whole.count + 1) * sizeof *whole.ids);
    if (!whole.ids) abort();
    if (first.count) memcpy(whole.ids, first.ids, (size_t)first.count * sizeof *whole.ids);
    if (second.count) memcpy(whole.ids + first.count, second.ids, (size_t)second.count * sizeof *whole.ids);
    return whole;
}

void tokens_drop(Tokens* tokens, int count) {
    tokens->count -= count;
    memmove(tokens->ids, tokens->ids + count, (size_t)tokens->count * sizeof *tokens->ids);
}

int model_count_shared(const Model* model, Tokens tokens) {
    int shared = 0;
    while (shared < tokens.count && shared < model->held.count && tokens.ids[shared] == model->held.ids[shared])
        shared++;
    return shared;
}

void model_pretend(Model* model, const int32_t* ids, int count) {
    memcpy(model->held.ids + model->held.count, ids, (size_t)count * sizeof *ids);
    model->held.count += count;
}
