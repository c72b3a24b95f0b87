#define _GNU_SOURCE
#include "prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

#define DEFAULT_SYSTEM "You are a helpful assistant."
#define DEFAULT_TOOL_TAG "tool_response"

static char* copy(const char* text) { return strdup(text ? text : ""); }

static void replace(char** held, const char* text) {
    free(*held);
    *held = copy(text);
}

// Our reading: the real one takes three strings out of the model's template. Here the template is known by one mark.
void template_read(Template* template, const char* source) {
    bool is_chatml = source && strstr(source, "<|im_start|>");
    template->kind = is_chatml ? TEMPLATE_OWN : TEMPLATE_NONE;
    template->knows_thinking = is_chatml && strstr(source, "think");
    replace(&template->system, DEFAULT_SYSTEM);
    replace(&template->prefix, "<|im_start|>user\n");
    replace(&template->postfix, "<|im_end|>\n<|im_start|>assistant\n");
    replace(&template->tool_tag, DEFAULT_TOOL_TAG);
    if (!is_chatml)
        say('W', "Chat template auto-parsing failed: please configure it via rkllm_set_chat_template");
}

void template_set_custom(Template* template, const char* system, const char* prefix, const char* postfix) {
    template->kind = TEMPLATE_CUSTOM;
    replace(&template->system, system);
    replace(&template->prefix, prefix);
    replace(&template->postfix, postfix);
    free(template->tools);
    template->tools = NULL;
}

void template_set_tools(Template* template, const char* system, const char* tools, const char* tool_tag) {
    replace(&template->system, system);
    replace(&template->tools, tools);
    replace(&template->tool_tag, tool_tag && *tool_tag ? tool_tag : DEFAULT_TOOL_TAG);
}

void template_free(Template* template) {
    free(template->system);
    free(template->prefix);
    free(template->postfix);
    free(template->tools);
    free(template->tool_tag);
    *template = (Template){0};
}

// Qwen's manner: the list and how to call, inside the system text.
static void write_tools(FILE* out, const char* tools) {
    fprintf(out,
            "\n\n# Tools\n\n"
            "You can call functions to help with what the user asks. These are their signatures as JSON:\n"
            "<tools>\n%s\n</tools>\n\n"
            "To call one, write its name and its arguments as a JSON object between these tags, once for each call:\n"
            "<tool_call>\n{\"name\": <name>, \"arguments\": <object>}\n</tool_call>",
            tools);
}

static void write_system(FILE* out, const Template* template) {
    if (template->kind == TEMPLATE_CUSTOM) fputs(template->system, out);
    if (template->kind != TEMPLATE_OWN) return;
    fprintf(out, "<|im_start|>system\n%s", template->system);
    if (template->tools) write_tools(out, template->tools);
    fputs("<|im_end|>\n", out);
}

// Our reading: role "tool" is a user turn whose text stands in the tag; with a custom template the role counts nothing.
static void write_turn(FILE* out, const Template* template, Turn turn) {
    bool in_tag = turn.is_tool && template->kind == TEMPLATE_OWN;
    if (template->kind != TEMPLATE_NONE) fputs(template->prefix, out);
    if (in_tag) fprintf(out, "<%s>\n", template->tool_tag);
    fputs(turn.text, out);
    if (in_tag) fprintf(out, "\n</%s>", template->tool_tag);
    if (template->kind != TEMPLATE_NONE) fputs(template->postfix, out);
    if (template->kind == TEMPLATE_OWN && template->knows_thinking && !turn.thinks)
        fputs("<think>\n\n</think>\n\n", out);
}

typedef struct {
    char* bytes;
    size_t length;
} Text;

static FILE* open_text(Text* text) {
    FILE* out = open_memstream(&text->bytes, &text->length);
    if (!out) abort();
    return out;
}

char* template_turn(const Template* template, Turn turn) {
    Text text;
    FILE* out = open_text(&text);
    fputs(turn.closing, out);
    if (turn.is_first) write_system(out, template);
    write_turn(out, template, turn);
    fclose(out);
    return text.bytes;
}
