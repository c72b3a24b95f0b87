// How the runtime writes a prompt around what the caller gives. It does not know tokens.

#ifndef PROMPT_H
#define PROMPT_H

#include <stdbool.h>

typedef enum {
    TEMPLATE_NONE,   // the caller's text and nothing else
    TEMPLATE_OWN,    // the model's, which here is always ChatML
    TEMPLATE_CUSTOM  // three strings of the caller, taken literally
} TemplateKind;

// All texts are owned. `system`: plain text where the template is the model's own, else literal.
typedef struct {
    TemplateKind kind;
    bool knows_thinking;
    char* system;
    char* prefix;
    char* postfix;
    char* tools;     // JSON, or NULL
    char* tool_tag;  // around what tools answered
} Template;

// `closing`: what ends the turn before, or "". `is_first`: nothing stands before it.
typedef struct {
    const char* text;
    bool is_tool;
    bool thinks;
    bool is_first;
    const char* closing;
} Turn;

// from the template in the GGUF, or NULL where there is none; says so in the log if it cannot be used
void template_read(Template* template, const char* source);
void template_set_custom(Template* template, const char* system, const char* prefix, const char* postfix);
void template_set_tools(Template* template, const char* system, const char* tools, const char* tool_tag);
void template_free(Template* template);

// gives a text to be freed
char* template_turn(const Template* template, Turn turn);

#endif
