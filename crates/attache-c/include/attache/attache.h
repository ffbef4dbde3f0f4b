/* Attaché's own functions, for what TensorFlow Lite's C API lacks. Texts that they return, other than the version, belong
   to the caller, who frees them with attache_text_free. They end with a zero byte. */

#ifndef ATTACHE_ATTACHE_H_
#define ATTACHE_ATTACHE_H_

#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/delegates/gpu/delegate_options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct AttacheCompiledModel AttacheCompiledModel;

/* The version of Attaché. */
TFL_CAPI_EXPORT const char* attache_version(void);
TFL_CAPI_EXPORT void attache_text_free(char* text);
/* The adapters of all graphics APIs, one a line: name, API, kind, and the reason if it cannot be used. */
TFL_CAPI_EXPORT char* attache_devices(void);

/* As TfLiteGpuDelegateV2Create, with a function that takes the error. TfLiteGpuDelegateV2Delete deletes the delegate. */
TFL_CAPI_EXPORT TfLiteDelegate* attache_gpu_delegate_create(
    const TfLiteGpuDelegateOptionsV2* options,
    void (*reporter)(void* user_data, const char* format, va_list args), void* user_data);

/* Makes it an error if operators are left to the CPU. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_options_set_require_delegation(
    TfLiteInterpreterOptions* options, bool required);
/* Lets intermediate tensors of the main subgraph keep the values of the last run, for debugging. They take memory, and
   delegates fuse no operators. Tensors of operators that graph passes removed have no memory. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_options_set_preserve_all_tensors(
    TfLiteInterpreterOptions* options, bool preserved);

/* Makes runs record how long each operator on the CPU takes. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_options_set_profile(TfLiteInterpreterOptions* options, bool profile);
/* Stores the weights that the CPU packs in a folder. model_token stands for the model's content; it may be null. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_options_set_cache(
    TfLiteInterpreterOptions* options, const char* folder, const char* model_token);

/* A compiled model: its interpreters share weights, and are made from any thread. Options may be null. */
TFL_CAPI_EXPORT AttacheCompiledModel* attache_compiled_model_create(
    const TfLiteModel* model, const TfLiteInterpreterOptions* options);
TFL_CAPI_EXPORT TfLiteInterpreter* attache_compiled_model_create_interpreter(const AttacheCompiledModel* compiled);
/* Interpreters of the compiled model stay valid. */
TFL_CAPI_EXPORT void attache_compiled_model_delete(AttacheCompiledModel* compiled);

/* Where each operator runs, and why, one a line. Null on an error. */
TFL_CAPI_EXPORT char* attache_interpreter_placement(const TfLiteInterpreter* interpreter);
/* The number of operators that delegates run, and of those that are left to the CPU. -1 on an error. */
TFL_CAPI_EXPORT int32_t attache_interpreter_delegated_count(const TfLiteInterpreter* interpreter);
TFL_CAPI_EXPORT int32_t attache_interpreter_cpu_count(const TfLiteInterpreter* interpreter);
/* How long the parts of the last run took, one a line: milliseconds, place and operators. Null on an error. */
TFL_CAPI_EXPORT char* attache_interpreter_profile(TfLiteInterpreter* interpreter);

#ifdef __cplusplus
}
#endif

#endif
