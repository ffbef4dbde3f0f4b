/* Attaché's own functions that show the subgraphs of an interpreter, and change an interpreter after it was made. The main
   subgraph has the index 0. */

#ifndef ATTACHE_GRAPH_H_
#define ATTACHE_GRAPH_H_

#include "tensorflow/lite/c/c_api_experimental.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -1 on an error. */
TFL_CAPI_EXPORT int32_t attache_interpreter_subgraph_count(const TfLiteInterpreter* interpreter);
TFL_CAPI_EXPORT int32_t attache_interpreter_tensor_count(const TfLiteInterpreter* interpreter, int32_t subgraph);
/* Null if there is none. */
TFL_CAPI_EXPORT TfLiteTensor* attache_interpreter_tensor(
    const TfLiteInterpreter* interpreter, int32_t subgraph, int32_t index);
/* Indices of tensors. Null on an error. */
TFL_CAPI_EXPORT const int* attache_interpreter_inputs(
    const TfLiteInterpreter* interpreter, int32_t subgraph, int32_t* count);
TFL_CAPI_EXPORT const int* attache_interpreter_outputs(
    const TfLiteInterpreter* interpreter, int32_t subgraph, int32_t* count);

/* Nodes have the indices of the file's operators. Where delegates run some, nodes with higher indices stand for their
   partitions in the plan, and operators that graph passes removed are not in it. Lists and structs are valid until the
   interpreter is changed; the registrations have no functions. */
TFL_CAPI_EXPORT int32_t attache_interpreter_node_count(const TfLiteInterpreter* interpreter, int32_t subgraph);
TFL_CAPI_EXPORT const int* attache_interpreter_execution_plan(
    const TfLiteInterpreter* interpreter, int32_t subgraph, int32_t* count);
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_node(
    const TfLiteInterpreter* interpreter, int32_t subgraph, int32_t index, TfLiteNode** node,
    TfLiteRegistration** registration);

/* The subgraph of a signature; -1 if there is no such signature. */
TFL_CAPI_EXPORT int32_t attache_interpreter_signature_subgraph(const TfLiteInterpreter* interpreter, const char* key);

/* Sets the number of threads from the next run on; -1 for the library's choice. Smaller numbers are errors. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_set_num_threads(TfLiteInterpreter* interpreter, int32_t num_threads);
/* Lets runs be cancelled with TfLiteInterpreterCancel. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_enable_cancellation(TfLiteInterpreter* interpreter);
/* Sets the extents of an input of any subgraph. AllocateTensors has to follow. */
TFL_CAPI_EXPORT TfLiteStatus attache_tensor_resize(TfLiteTensor* tensor, const int* dims, int32_t dims_size);
/* As TfLiteInterpreterSetCustomAllocationForTensor, for a tensor of any subgraph. */
TFL_CAPI_EXPORT TfLiteStatus attache_tensor_set_custom_allocation(
    TfLiteTensor* tensor, const TfLiteCustomAllocation* allocation, int64_t flags);

/* The functions below are not in the smallest library. */

/* As TfLiteInterpreterAllocateTensors and TfLiteInterpreterInvoke, for any subgraph. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_allocate(TfLiteInterpreter* interpreter, int32_t subgraph);
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_invoke(TfLiteInterpreter* interpreter, int32_t subgraph);
/* Sets a function that runs ask before each operator, or group of operators, on the CPU and before each partition, on the
   thread that runs: where it returns true, they end with kTfLiteError. Null removes it. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_set_cancellation_function(
    TfLiteInterpreter* interpreter, void* data, bool (*function)(void* data));
/* Sets the functions of a profiler. begin takes data, a tag that stays valid as long as the interpreter, a type of
   tflite::Profiler::EventType, the index of a node or 0, and that of a subgraph, and returns a number for end. Events are
   "AllocateTensors", "ModifyGraphWithDelegate", "Invoke" for each subgraph that runs, and one for each node that runs. Nodes
   of the execution plan that are parts of others, or were computed in advance, have one that takes no time. Runs compute
   operators on the CPU one after the other then. Null removes the profiler. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_set_profiler(
    TfLiteInterpreter* interpreter, void* data,
    uint32_t (*begin)(void* data, const char* tag, int32_t type, int64_t node, int64_t subgraph),
    void (*end)(void* data, uint32_t event));
/* Lets go of the memory of tensors, apart from variables and the program's own. AllocateTensors has to follow. What runs
   on the CPU need for themselves stays. */
TFL_CAPI_EXPORT TfLiteStatus attache_interpreter_release_memory(TfLiteInterpreter* interpreter);

#ifdef __cplusplus
}
#endif

#endif
