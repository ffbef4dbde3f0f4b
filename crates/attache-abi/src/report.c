// Errors as C passes them: a format with arguments of any number, which Rust can neither take nor make.

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

// Longer messages are cut.
#define LONGEST_MESSAGE 2048

typedef void (*Reporter)(void* user_data, const char* format, va_list arguments);

// What TfLiteContext::impl_ begins with, in contexts of Attaché.
typedef struct {
  void (*report)(void* context, const char* text);
} ContextHead;

static void call(Reporter reporter, void* user_data, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  reporter(user_data, format, arguments);
  va_end(arguments);
}

// Passes a text to a reporter.
void attache_abi_report(Reporter reporter, void* user_data, const char* text) {
  call(reporter, user_data, "%s", text);
}

// Formats a message and passes it to the context. `context` points to a TfLiteContext of Attaché, whose impl_ is its
// fourth pointer.
void attache_abi_context_report_va(void* context, const char* format, va_list arguments) {
  char text[LONGEST_MESSAGE];
  if (context == NULL || format == NULL) {
    return;
  }
  const ContextHead* head = ((ContextHead**)context)[3];
  if (head == NULL || head->report == NULL || vsnprintf(text, sizeof(text), format, arguments) < 0) {
    return;
  }
  head->report(context, text);
}

// TfLiteContext::ReportError.
void attache_abi_context_report(void* context, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  attache_abi_context_report_va(context, format, arguments);
  va_end(arguments);
}
