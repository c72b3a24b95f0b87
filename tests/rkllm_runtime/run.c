// One run: prompt, prefill, tokens, callbacks.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "runtime.h"

#define TEXT_BYTES 4096
#define WORD_COUNT 16
#define TOKENS_BEFORE_CRASH 3
#define PAUSE 1
#define RELEASE_OUTPUT 2
#define PICTURE_TAG "<image>"

// The pictures of a run: `rows` are the embeddings of all their tokens.
typedef struct {
    const float* rows;
    int count, tokens;
    const char *start, *end;
} Pictures;

typedef struct {
    Runtime* runtime;
    void* userdata;
    Pictures pictures;
    struct llama_sampler* sampler;
    int room;         // how many tokens the reply may have
    bool heeds_ends;  // an end token ends the reply
    double pace;      // tokens per second, or 0: computed
    int late;         // tokens that are still written after an abort
    int32_t words[WORD_COUNT];
    int word_count;
    char text[TEXT_BYTES];  // of tokens whose characters are not whole yet
    int text_length;
    int prefilled, generated;
    double begun, prefill_end;
} Run;

typedef enum { GO_ON, PAUSED, ENDED, FAILED } Outcome;

static int keep_history(const RKLLMInferParam* asked) {
#if RKLLM_FAMILY >= 'D'
    return asked->keep_history;
#else
    (void)asked;
    return 0;
#endif
}

static Sampling read_sampling(const RKLLMParam* param, const RKLLMInferParam* asked) {
#define SAMPLING(from)                                                                                             \
    (Sampling) {                                                                                                   \
        (from)->top_k, (from)->top_p, (from)->temperature, (from)->repeat_penalty, (from)->frequency_penalty,      \
            (from)->presence_penalty, (from)->mirostat, (from)->mirostat_tau, (from)->mirostat_eta                 \
    }
#if RKLLM_FAMILY >= 'G'
    if (asked->sampling_params) return SAMPLING(asked->sampling_params);
#endif
    (void)asked;
    return SAMPLING(param);
}

// Our reading: a limit of 0 or less is none.
static int read_limit(const RKLLMParam* param, const RKLLMInferParam* asked) {
#if RKLLM_FAMILY >= 'G'
    if (asked->max_new_tokens > 0) return asked->max_new_tokens;
#endif
    (void)asked;
    return param->max_new_tokens > 0 ? param->max_new_tokens : param->max_context_len;
}

static bool is_tool_answer(const RKLLMInput* input) {
#if RKLLM_FAMILY >= 'F'
    return input->role && strcmp(input->role, "tool") == 0;
#else
    (void)input;
    return false;
#endif
}

// As measured: role "tool" wants JSON. Looked at here: its first and last character.
static bool is_json(const RKLLMInput* input) {
    const char* text = input->input_type == RKLLM_INPUT_PROMPT && input->prompt_input ? input->prompt_input : "";
    size_t length = strlen(text);
    const char* last = length > 1 ? strchr("]}\"", text[length - 1]) : NULL;
    return last && *last && text[0] == "[{\""[last - "]}\""];
}

// Whether the prompt goes behind what is held. Our readings: after a pause it does ("run again with new input to
// resume"), and so does an answer of the runtime's own tools, since the sample sends only that with keep_history 0.
static bool continues(const Runtime* runtime, const RKLLMInput* input, const RKLLMInferParam* asked) {
    return keep_history(asked) || runtime->is_paused || (runtime->template.tools && is_tool_answer(input));
}

// What ends the model's turn before a new one. Our reading; a raw prompt ends it itself.
static const char* closing_of(const Runtime* runtime) {
    return runtime->is_open && !runtime->is_paused && runtime->template.kind == TEMPLATE_OWN ? "<|im_end|>\n" : "";
}

// The token said last is seen by the caller and not evaluated yet: it goes first. Not so an end token where the
// template or the caller writes it.
static bool owes_last(const Runtime* runtime) {
    if (runtime->last == NO_TOKEN) return false;
    const Template* template = &runtime->template;
    bool is_raw = !*template->prefix && !*template->postfix;
    return !model_is_end(&runtime->model, runtime->last) || (template->kind == TEMPLATE_CUSTOM && !is_raw);
}

// Before 1.2.1b1 a run has one picture; before 1.3.0 the texts around pictures are parameters of the model.
static Pictures read_pictures(const Runtime* runtime, const RKLLMInput* input) {
    if (input->input_type != RKLLM_INPUT_MULTIMODAL) return (Pictures){0};
#if RKLLM_FAMILY >= 'G'
    (void)runtime;
    const typeof(input->multimodal_input.image)* image = &input->multimodal_input.image;
    const char *start = image->image_start, *end = image->image_end;
#else
    const RKLLMMultiModalInput* image = &input->multimodal_input;
    const char *start = runtime->param.img_start, *end = runtime->param.img_end;
#endif
#if RKLLM_FAMILY >= 'E'
    int count = (int)image->n_image;
#else
    int count = 1;
#endif
    return (Pictures){image->image_embed, count, (int)image->n_image_tokens, start, end};
}

// For tests: the floats as they came.
static void dump_pictures(const Run* run) {
    const char* path = getenv("RKLLM_STANDIN_EMBEDDINGS");
    FILE* file = path ? fopen(path, "wb") : NULL;
    if (!file) return;
    size_t width = (size_t)model_width(&run->runtime->model);
    fwrite(run->pictures.rows, sizeof(float), (size_t)(run->pictures.count * run->pictures.tokens) * width, file);
    fclose(file);
}

static const float* row_at(const Run* run, int index) {
    return run->pictures.rows + (size_t)index * (size_t)model_width(&run->runtime->model);
}

// A negative number for an embedding, so that equal pictures are found again in what is held.
static int32_t name_row(const Run* run, int index) {
    const unsigned char* bytes = (const unsigned char*)row_at(run, index);
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof(float) * (size_t)model_width(&run->runtime->model); i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return -2 - (int32_t)(hash & 0x3fffffff);
}

static Tokens add_text(const Model* model, Tokens whole, const char* start, const char* text, int length, bool bos) {
    char* part = NULL;
    if (asprintf(&part, "%s%.*s", start, length, text) < 0) abort();
    Tokens fresh = model_tokenize(model, part, bos), joined = tokens_join(whole, fresh);
    free(part), free(whole.ids), free(fresh.ids);
    return joined;
}

static Tokens add_picture(const Run* run, Tokens whole, int picture) {
    Tokens rows = {malloc(sizeof *rows.ids * (size_t)(run->pictures.tokens + 1)), run->pictures.tokens};
    if (!rows.ids) abort();
    for (int i = 0; i < rows.count; i++) rows.ids[i] = name_row(run, picture * rows.count + i);
    Tokens joined = tokens_join(whole, rows);
    free(whole.ids), free(rows.ids);
    return joined;
}

// Our reading: a tag is replaced by the texts around a picture and its embeddings.
static Tokens tokenize(const Run* run, const char* text, bool adds_bos) {
    const Model* model = &run->runtime->model;
    if (!run->pictures.rows) return model_tokenize(model, text, adds_bos);
    Tokens whole = {0};
    const char *start = "", *tag;
    for (int picture = 0; (tag = strstr(text, PICTURE_TAG)); picture++, text = tag + strlen(PICTURE_TAG)) {
        whole = add_text(model, whole, start, text, (int)(tag - text), adds_bos && !picture);
        whole = add_text(model, whole, run->pictures.start, "", 0, false);
        whole = add_picture(run, whole, picture);
        start = run->pictures.end;
    }
    return add_text(model, whole, start, text, (int)strlen(text), false);
}

static int count_tags(const char* text) {
    int count = 0;
    while ((text = strstr(text, PICTURE_TAG))) count++, text += strlen(PICTURE_TAG);
    return count;
}

static const char* text_of(const RKLLMInput* input) {
    const char* text = input->prompt_input;
    if (input->input_type == RKLLM_INPUT_MULTIMODAL) text = input->multimodal_input.prompt;
    return text ? text : "";
}

static Tokens read_text(const Run* run, const RKLLMInput* input, bool goes_on) {
    const Runtime* runtime = run->runtime;
    Turn turn = {.text = text_of(input), .thinks = true};
    turn.is_tool = is_tool_answer(input);
    turn.is_first = !goes_on || runtime->model.held.count == 0;
    turn.closing = goes_on ? closing_of(runtime) : "";
#if RKLLM_FAMILY >= 'F'
    turn.thinks = input->enable_thinking;
#endif
    char* text = template_turn(&runtime->template, turn);
    if (log_level() >= 2) say('I', "prompt text: \"%s\"", text);
    // As measured: with three strings of the caller the text is taken as it is.
    Tokens tokens = tokenize(run, text, turn.is_first && runtime->template.kind != TEMPLATE_CUSTOM);
    free(text);
    return tokens;
}

static void say_tokens(Tokens tokens) {
    char* list = NULL;
    size_t length = 0;
    FILE* out = open_memstream(&list, &length);
    for (int i = 0; i < tokens.count; i++) fprintf(out, i ? ", %d" : "%d", tokens.ids[i]);
    fclose(out);
    say('I', "prompt tokens: [%s]", list);
    free(list);
}

// TOKEN input is never put into a template.
static Tokens read_prompt(const Run* run, const RKLLMInput* input, bool goes_on) {
    const Runtime* runtime = run->runtime;
    Tokens owed = {0}, fresh;
    if (input->input_type == RKLLM_INPUT_TOKEN)
        fresh = tokens_join((Tokens){input->token_input.input_ids, (int)input->token_input.n_tokens}, owed);
    else
        fresh = read_text(run, input, goes_on);
    int32_t last = runtime->last;
    if (goes_on && owes_last(runtime)) owed = (Tokens){&last, 1};
    Tokens whole = tokens_join(owed, fresh);
    free(fresh.ids);
    if (log_level() >= 2) say_tokens(whole);
    return whole;
}

static float memory_mb(void) {
    FILE* status = fopen("/proc/self/status", "r");
    char line[128];
    long peak_kb = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &peak_kb) == 1) break;
    if (status) fclose(status);
    return (float)peak_kb / 1024;
}

// As measured: the first token belongs to the prefill.
static int count_written(const Run* run) { return run->generated ? run->generated - 1 : 0; }

static void write_figures(const Run* run, RKLLMResult* result) {
#if RKLLM_FAMILY >= 'F'
    result->perf.prefill_time_ms = (float)(run->prefill_end - run->begun);
    result->perf.prefill_tokens = run->prefilled;
    result->perf.generate_time_ms = (float)(now_ms() - run->prefill_end);
    result->perf.generate_tokens = count_written(run);
    result->perf.memory_usage_mb = memory_mb();
#else
    (void)run, (void)result;
#endif
}

static int deliver(const Run* run, LLMCallState state, RKLLMResult* result) {
#if RKLLM_FAMILY >= 'G'
    // read anew each time: a caller that lets go of the struct too early is to be found out
    const RKLLMCallback* callback = run->runtime->callback;
    return callback->result_callback(result, run->userdata ? run->userdata : callback->result_userdata, state);
#elif RKLLM_FAMILY >= 'F'
    return run->runtime->callback(result, run->userdata, state);
#else
    run->runtime->callback(result, run->userdata, state);
    return 0;
#endif
}

// Our reading: without a token the id is -1, and FINISH and ERROR have a NULL text.
static int call_back(const Run* run, LLMCallState state, const char* text, int32_t token) {
    RKLLMResult result = {.text = text, .token_id = token};
    if (state == RKLLM_RUN_FINISH) write_figures(run, &result);
    return deliver(run, state, &result);
}

static bool ends_inside_character(const char* bytes, int length) {
    for (int back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)bytes[length - back];
        if ((byte & 0xC0) == 0x80) continue;
        int whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return byte < 0xF8 && whole > back;
    }
    return false;
}

// Our reading: all that waits comes with the token that completes it. What waits at the end of a reply is dropped.
static int tell(Run* run, int32_t token) {
    int room = TEXT_BYTES - 1 - run->text_length;
    run->text_length += model_piece(&run->runtime->model, token, run->text + run->text_length, room);
    if (ends_inside_character(run->text, run->text_length) && run->text_length < TEXT_BYTES / 2)
        return call_back(run, RKLLM_RUN_WAITING, "", token);
    run->text[run->text_length] = '\0';
    int answer = call_back(run, RKLLM_RUN_NORMAL, run->text, token);
    // the text is the caller's for the call alone
    memset(run->text, '#', (size_t)run->text_length);
    run->text_length = 0;
    return answer;
}

// As measured: a token that is left out comes without text.
static int tell_token(Run* run, int32_t token) {
    bool is_hidden = run->runtime->param.skip_special_token && model_is_control(&run->runtime->model, token);
    return is_hidden ? call_back(run, RKLLM_RUN_NORMAL, "", token) : tell(run, token);
}

// Texts and pictures are evaluated apart.
static int batch_length(Tokens prompt, int start) {
    int count = 1;
    while (start + count < prompt.count && count < BATCH_TOKENS &&
           (prompt.ids[start + count] < 0) == (prompt.ids[start] < 0))
        count++;
    return count;
}

static bool evaluate(const Run* run, const int32_t* ids, int count) {
    Model* model = &run->runtime->model;
    if (ids[0] >= 0) return model_evaluate(model, ids, count);
    size_t width = (size_t)model_width(model);
    float* rows = malloc(sizeof *rows * width * (size_t)count);
    if (!rows) abort();
    for (int i = 0; i < count; i++) {
        int index = 0;
        while (name_row(run, index) != ids[i]) index++;
        memcpy(rows + width * (size_t)i, row_at(run, index), sizeof *rows * width);
    }
    bool is_done = model_evaluate_embeddings(model, ids, rows, count);
    free(rows);
    return is_done;
}

static bool prefill(Run* run, Tokens prompt) {
    Model* model = &run->runtime->model;
    bool is_slow = fault_fires("slow_prefill");
    if (fault_fires("hang_in_prefill")) hang();
    for (int done = 0, count; done < prompt.count; done += count) {
        count = batch_length(prompt, done);
        if (is_slow) sleep_until_ms(now_ms() + setting("MS", 0));
        if (run->pace)
            model_pretend(model, prompt.ids + done, count);
        else if (!evaluate(run, prompt.ids + done, count))
            return false;
    }
    run->prefill_end = now_ms();
    return true;
}

// As measured: a full context loses its older part without a word.
static bool hold(Run* run, int32_t token) {
    Model* model = &run->runtime->model;
    if (model->held.count == model->context_tokens) model_shift(model, model->context_tokens / 2);
    if (!run->pace) return model_evaluate(model, &token, 1);
    model_pretend(model, &token, 1);
    return true;
}

static int32_t next_token(Run* run) {
    if (!run->pace) return sampler_sample(run->sampler, &run->runtime->model);
    sleep_until_ms(run->prefill_end + (run->generated + 1) * 1e3 / run->pace);
    return run->words[run->generated % run->word_count];
}

// One token and what the callback says to it. Our reading: an end token is not counted as generated.
static Outcome write_token(Run* run) {
    Runtime* runtime = run->runtime;
    int32_t token = runtime->last = next_token(run);
    bool is_end = run->heeds_ends && model_is_end(&runtime->model, token);
    if (!is_end) run->generated++;
    int answer = tell_token(run, token);
    if (run->generated == TOKENS_BEFORE_CRASH && fault_fires("run_crashes")) {
        sleep_until_ms(now_ms() + 200); // an NPU takes so long for a token: what came before has been passed on
        crash();
    }
    if (answer == PAUSE && RKLLM_FAMILY >= 'F') return PAUSED;
    return is_end || run->generated >= run->room ? ENDED : GO_ON;
}

static bool is_aborted(Runtime* runtime) { return atomic_load(&runtime->state) == ABORTING; }

// The reply, until it ends. The token said last is not evaluated.
static Outcome generate(Run* run) {
    Runtime* runtime = run->runtime;
    runtime->last = NO_TOKEN;
    runtime->is_open = true;
    if (is_aborted(runtime)) return ENDED;
    for (;;) {
        Outcome outcome = write_token(run);
        if (outcome == GO_ON && is_aborted(runtime) && !run->late--) outcome = ENDED;
        if (outcome != GO_ON) return outcome;
        if (!hold(run, runtime->last)) return FAILED;
    }
}

static void say_figures(const Run* run) {
    double prefill_ms = run->prefill_end - run->begun, generate_ms = now_ms() - run->prefill_end;
    say('I', "prefill: %.2f ms, %d tokens", prefill_ms, run->prefilled);
    say('I', "generate: %.2f ms, %d tokens", generate_ms, count_written(run));
    say('I', "peak memory: %.2f MB", (double)memory_mb());
}

static int fail(const Run* run, const char* why) {
    refuse("%s", why);
    call_back(run, RKLLM_RUN_ERROR, NULL, NO_TOKEN);
    return -1;
}

static void save_cache(const Runtime* runtime, const RKLLMInferParam* asked) {
    const RKLLMPromptCacheParam* cache = asked->prompt_cache_params;
    if (!cache || !cache->save_prompt_cache) return;
    const char* path = cache->prompt_cache_path ? cache->prompt_cache_path : "./prompt_cache.bin";
    if (!model_save(&runtime->model, path)) refuse("failed to save the prompt cache to %s", path);
}

static int write_reply(Run* run, Tokens prompt) {
    if (!prefill(run, prompt)) return fail(run, "failed to evaluate the prompt");
    Outcome outcome = generate(run);
    if (outcome == FAILED) return fail(run, "failed to evaluate a token");
    run->runtime->is_paused = outcome == PAUSED;
    if (log_level() >= 1) say_figures(run);
    if (run->generated < TOKENS_BEFORE_CRASH && fault_fires("run_crashes")) crash();
    // Our reading: a pause is not a finish.
    if (outcome == ENDED && !fault_fires("no_finish")) call_back(run, RKLLM_RUN_FINISH, NULL, NO_TOKEN);
    return 0;
}

// As reported: 1.2.3 delivers one result and no FINISH. Our reading: 1.3.0 does the same, and what it delivered stays in
// memory until the callback answers with 2; here nothing more is computed then.
static int write_states(Run* run, Tokens prompt) {
    Model* model = &run->runtime->model;
    size_t width = (size_t)model_width(model);
    if (run->runtime->keeps_output) return fail(run, "the output of the last run was not released");
    float* rows = malloc(sizeof *rows * width * (size_t)prompt.count);
    if (!rows) abort();
    for (int done = 0, count; done < prompt.count; done += count) {
        count = batch_length(prompt, done);
        if (!model_evaluate_states(model, prompt.ids + done, rows + width * (size_t)done, count)) {
            free(rows);
            return fail(run, "failed to evaluate the prompt");
        }
    }
    RKLLMResult result = {.text = "", .token_id = NO_TOKEN};
    result.last_hidden_layer = (RKLLMResultLastHiddenLayer){rows, (int)width, prompt.count};
    int answer = deliver(run, RKLLM_RUN_NORMAL, &result);
    run->runtime->keeps_output = RKLLM_FAMILY >= 'G' && answer != RELEASE_OUTPUT;
    // the states are the caller's for the call alone
    memset(rows, 0xff, sizeof *rows * width * (size_t)prompt.count);
    free(rows);
    return 0;
}

// How many tokens at the front of the prompt are there already. 1.1.x reuses nothing.
static int count_reused(const Model* model, Tokens prompt) {
    return RKLLM_FAMILY < 'D' ? 0 : model_count_shared(model, prompt);
}

static int run_tokens(Run* run, const RKLLMInferParam* asked, Tokens prompt, bool goes_on) {
    Model* model = &run->runtime->model;
    int reused = goes_on ? 0 : count_reused(model, prompt);
    // As measured: of a prompt that is there already 0 tokens are counted. Its last one is evaluated all the same.
    run->prefilled = prompt.count - reused;
    if (prompt.count && reused == prompt.count) reused--;
    int before = goes_on ? model->held.count : reused;
    int whole = before + prompt.count - reused;
    if (prompt.count == 0) return refuse("the prompt is empty");
    if (whole > model->context_tokens)
        return refuse("the length of prompt is greater than max context (prompt: %d tokens, max context: %d)", whole,
                      model->context_tokens);
    model_keep(model, before);
    // model_keep may have had to forget more
    if (model->held.count < before) reused = 0, run->prefilled = prompt.count;
    run->room = read_limit(&run->runtime->param, asked);
    Tokens fresh = {prompt.ids + reused, prompt.count - reused};
    int status = asked->mode == RKLLM_INFER_GENERATE ? write_reply(run, fresh) : write_states(run, fresh);
    save_cache(run->runtime, asked);
    return status;
}

static void open_run(Run* run, const RKLLMInferParam* asked) {
    Runtime* runtime = run->runtime;
    Sampling sampling = read_sampling(&runtime->param, asked);
    run->begun = run->prefill_end = now_ms();
    run->heeds_ends = !fault_fires("wrong_eos");
#if RKLLM_FAMILY >= 'G'
    run->heeds_ends = run->heeds_ends && !runtime->param.ignore_eos_token;
#endif
    run->sampler = sampler_open(&runtime->model, &sampling, (uint32_t)setting("SEED", 0));
    run->pace = setting("PACE", 0);
    run->late = (int)setting("LATE", 0);
    if (run->pace) run->word_count = model_words(&runtime->model, run->words, WORD_COUNT);
    if (!run->word_count) run->pace = 0;
    // what is only written down is no ground for a run that computes
    if (runtime->model.is_hollow && !run->pace) model_keep(&runtime->model, 0);
    runtime->model.is_hollow = run->pace > 0;
}

static bool knows_lora(const Runtime* runtime, const RKLLMInferParam* asked) {
    if (!asked->lora_params || !asked->lora_params->lora_adapter_name) return true;
    for (int i = 0; i < LORA_COUNT; i++)
        if (runtime->loras[i] && strcmp(runtime->loras[i], asked->lora_params->lora_adapter_name) == 0) return true;
    return false;
}

int run_input(Runtime* runtime, const RKLLMInput* input, const RKLLMInferParam* asked, void* userdata) {
    Run run = {.runtime = runtime, .userdata = userdata};
    if (fault_fires("illegal_instruction")) execute_nonsense();
    if (fault_fires("run_fails")) return fail(&run, "failed to submit");
    bool has_pictures = input->input_type == RKLLM_INPUT_MULTIMODAL;
    bool is_known = asked->mode == RKLLM_INFER_GENERATE ||
                    (asked->mode == RKLLM_INFER_GET_LAST_HIDDEN_LAYER && !has_pictures);
    if (input->input_type == RKLLM_INPUT_EMBED || !is_known)
        return fail(&run, "the stand-in only writes text from texts and pictures, and hidden states from texts");
    run.pictures = read_pictures(runtime, input);
    if (has_pictures) {
        if (!run.pictures.tokens || !run.pictures.rows || count_tags(text_of(input)) != run.pictures.count)
            return fail(&run, "The n_image/n_image_token of multimodal_input is not set");
        dump_pictures(&run);
    }
    if (!knows_lora(runtime, asked))
        return refuse("the lora adapter %s is not loaded", asked->lora_params->lora_adapter_name);
    if (is_tool_answer(input) && !is_json(input))
        return refuse("the answer of a tool must be a JSON string");
    open_run(&run, asked);
    bool goes_on = continues(runtime, input, asked);
    if (log_level() >= 2) {
        say('I', "keep history status: %d", keep_history(asked));
        say('I', "current kv cache size: %d", runtime->model.held.count);
    }
    Tokens prompt = read_prompt(&run, input, goes_on);
    int status = run_tokens(&run, asked, prompt, goes_on);
    free(prompt.ids);
    sampler_close(run.sampler);
    return status;
}
