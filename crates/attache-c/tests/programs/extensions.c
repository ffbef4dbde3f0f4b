/* Operators and a delegate of the program's.

   Arguments: a model with the custom operator "Double" of [4] floats, and one that adds two inputs of [1,2,2,3] floats. */

#include "attache/attache.h"
#include "check.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/delegates/xnnpack/xnnpack_delegate.h"

static int made, freed, prepared, invoked;

static void* init(TfLiteContext* context, const char* buffer, size_t length) {
  (void)context;
  (void)buffer;
  (void)length;
  ++made;
  return malloc(1);
}

static void release(TfLiteContext* context, void* data) {
  (void)context;
  ++freed;
  free(data);
}

static TfLiteStatus prepare(TfLiteContext* context, TfLiteNode* node) {
  ++prepared;
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  return context->ResizeTensor(context, output, TfLiteIntArrayCopy(input->dims));
}

static TfLiteStatus twice(TfLiteContext* context, TfLiteNode* node) {
  ++invoked;
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  const float* from = TfLiteTensorData(input);
  for (size_t i = 0; i < input->bytes / sizeof(float); ++i) output->data.f[i] = 2.0f * from[i];
  return kTfLiteOk;
}

static TfLiteStatus refuse(TfLiteContext* context, TfLiteNode* node) {
  (void)node;
  context->ReportError(context, "no %s", "kernel");
  return kTfLiteError;
}

static TfLiteRegistration doubling(void) {
  TfLiteRegistration registration;
  memset(&registration, 0, sizeof(registration));
  registration.init = init;
  registration.free = release;
  registration.prepare = prepare;
  registration.invoke = twice;
  registration.custom_name = "Double";
  registration.version = 1;
  return registration;
}

/* Runs the model with these options, and checks what comes out. */
static void runs(const char* path, TfLiteInterpreterOptions* options) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteModelDelete(model);
  TfLiteInterpreterOptionsDelete(options);
  CHECK(interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  float* in = TfLiteTensorData(TfLiteInterpreterGetInputTensor(interpreter, 0));
  in[3] = 21.0f;
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  const TfLiteTensor* out = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  CHECK(((const float*)TfLiteTensorData(out))[3] == 42.0f);
  TfLiteInterpreterDelete(interpreter);
}

static const TfLiteRegistration* find_custom(void* user_data, const char* name, int version) {
  return strcmp(name, "Double") == 0 && version == 1 ? user_data : NULL;
}

static const TfLiteRegistration* find_builtin(void* user_data, TfLiteBuiltinOperator op, int version) {
  (void)user_data;
  (void)op;
  (void)version;
  return NULL;
}

static const TfLiteOperator* find_operator(void* user_data, const char* name, int version) {
  return strcmp(name, "Double") == 0 && version == 1 ? user_data : NULL;
}

static const TfLiteRegistration_V1* find_custom_v1(void* user_data, const char* name, int version) {
  (void)version;
  return strcmp(name, "Double") == 0 ? user_data : NULL;
}

static TfLiteStatus opaque_prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  (void)context;
  return TfLiteOpaqueNodeNumberOfInputs(node) == 1 ? kTfLiteOk : kTfLiteError;
}

/* Fails the check with this number, if there is one. */
static TfLiteStatus opaque_checks(TfLiteOpaqueContext* context, int wrong) {
  TF_LITE_OPAQUE_ENSURE(context, wrong != 1);
  TF_LITE_OPAQUE_ENSURE_MSG(context, wrong != 2, "the second check fails");
  TF_LITE_OPAQUE_ENSURE_EQ(context, wrong == 3, 0);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, wrong == 4 ? kTfLiteInt8 : kTfLiteInt16, kTfLiteInt16);
  TF_LITE_OPAQUE_ENSURE_NEAR(context, 1.0, wrong == 5 ? 1.5 : 1.25, 0.3);
  TF_LITE_OPAQUE_MAYBE_KERNEL_LOG(context, "all %d checks pass", 5);
  return kTfLiteOk;
}

static TfLiteStatus opaque_twice(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  for (int wrong = 0; wrong <= 5; ++wrong) {
    CHECK(opaque_checks(context, wrong) == (wrong ? kTfLiteError : kTfLiteOk));
  }
  const char* note = NULL;
  size_t length = 0;
  CHECK(TfLiteOpaqueContextGetMetadata(context, "note", &note, &length) == kTfLiteOk);
  CHECK(length == 2 && memcmp(note, "\1\2", 2) == 0);
  CHECK(TfLiteOpaqueContextGetMetadata(context, "none", &note, &length) == kTfLiteError);
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const float* from = TfLiteOpaqueTensorData(input);
  float* to = TfLiteOpaqueTensorData(output);
  for (size_t i = 0; i < TfLiteOpaqueTensorByteSize(input) / sizeof(float); ++i) to[i] = 2.0f * from[i];
  return kTfLiteOk;
}

static void operators(const char* path) {
  /* Without the operator there is nothing to run. */
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, NULL);
  CHECK(interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteUnresolvedOps);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError);
  TfLiteInterpreterDelete(interpreter);
  TfLiteModelDelete(model);

  const TfLiteRegistration registration = doubling();
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsAddCustomOp(options, "Double", &registration, 1, 1);
  runs(path, options);
  CHECK(made > 0 && made == freed && prepared > 0 && invoked == 1);

  /* An operator that is there and refuses is another error than one that is not there. */
  TfLiteRegistration refusing = registration;
  refusing.prepare = refuse;
  options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsAddCustomOp(options, "Double", &refusing, 1, 1);
  model = TfLiteModelCreateFromFile(path);
  interpreter = TfLiteInterpreterCreate(model, options);
  CHECK(interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteError);
  TfLiteInterpreterDelete(interpreter);
  TfLiteModelDelete(model);
  TfLiteInterpreterOptionsDelete(options);

  options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetOpResolver(options, find_builtin, find_custom, (void*)&registration);
  runs(path, options);

  TfLiteRegistration_V1 oldest;
  memcpy(&oldest, &registration, sizeof(oldest));
  options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetOpResolverV1(options, NULL, find_custom_v1, &oldest);
  runs(path, options);
  CHECK(made == freed && invoked == 3);

  static const char name[] = "Double";
  TfLiteOperator* operator = TfLiteOperatorCreate(kTfLiteBuiltinCustom, name, 1, NULL);
  CHECK(TfLiteOperatorGetCustomName(operator) == name);
  TfLiteOperatorSetPrepare(operator, opaque_prepare);
  TfLiteOperatorSetInvoke(operator, opaque_twice);
  options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsAddOperator(options, operator);
  runs(path, options);
  options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetOpResolverExternal(options, NULL, find_operator, operator);
  runs(path, options);
  options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetOpResolverExternalWithFallback(options, NULL, find_operator, NULL, NULL, operator);
  runs(path, options);
  TfLiteOperatorDelete(operator);
}

static TfLiteStatus add(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* a = &context->tensors[node->inputs->data[0]];
  const TfLiteTensor* b = &context->tensors[node->inputs->data[1]];
  TfLiteTensor* sum = &context->tensors[node->outputs->data[0]];
  /* Not the sum, so that it shows who computed. */
  for (size_t i = 0; i < sum->bytes / sizeof(float); ++i) sum->data.f[i] = a->data.f[i] + b->data.f[i] + 100.0f;
  return kTfLiteOk;
}

typedef TfLiteStatus (*Step)(TfLiteContext* context, TfLiteNode* node);

static TfLiteStatus take(TfLiteContext* context, TfLiteDelegate* delegate, Step prepare, Step invoke) {
  TfLiteIntArray* plan;
  if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  TfLiteRegistration kernel;
  memset(&kernel, 0, sizeof(kernel));
  kernel.custom_name = "Adder";
  kernel.prepare = prepare;
  kernel.invoke = invoke;
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, kernel, plan, delegate);
}

static TfLiteStatus take_all(TfLiteContext* context, TfLiteDelegate* delegate) {
  return take(context, delegate, NULL, add);
}

static TfLiteStatus take_all_unprepared(TfLiteContext* context, TfLiteDelegate* delegate) {
  return take(context, delegate, refuse, add);
}

static TfLiteStatus take_all_and_break(TfLiteContext* context, TfLiteDelegate* delegate) {
  return take(context, delegate, NULL, refuse);
}

static TfLiteStatus fail(TfLiteContext* context, TfLiteDelegate* delegate) {
  (void)delegate;
  context->ReportError(context, "no %s", "luck");
  return kTfLiteDelegateError;
}

static void delegates(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteDelegate adder = TfLiteDelegateCreate(), failing = TfLiteDelegateCreate(), unprepared = TfLiteDelegateCreate();
  adder.Prepare = take_all;
  failing.Prepare = fail;
  unprepared.Prepare = take_all_unprepared;
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsAddDelegate(options, &adder);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  /* A delegate has tensors allocated. */
  CHECK(interpreter != NULL && TfLiteInterpreterGetInputTensor(interpreter, 0)->data.f != NULL);
  CHECK(attache_interpreter_delegated_count(interpreter) == 1);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(((const float*)TfLiteTensorData(TfLiteInterpreterGetOutputTensor(interpreter, 0)))[0] == 100.0f);
  /* What a delegate writes is its own, so that no other one may have a buffer for it. */
  TfLiteTensor* sum = TfLiteInterpreterGetTensor(interpreter, TfLiteInterpreterGetOutputTensorIndex(interpreter, 0));
  CHECK(sum->delegate == &adder && sum->buffer_handle == kTfLiteNullBufferHandle);
  CHECK(TfLiteInterpreterGetInputTensor(interpreter, 0)->delegate == NULL);
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, sum, 0, &failing) == kTfLiteError && sum->delegate == &adder);
  TfLiteInterpreterDelete(interpreter);

  /* The failure of a delegate is an error. With ModifyGraphWithDelegate, the interpreter stays as it was. */
  TfLiteDelegate* faulty[] = {&failing, &unprepared};
  for (int i = 0; i < 2; ++i) {
    options = TfLiteInterpreterOptionsCreate();
    TfLiteInterpreterOptionsAddDelegate(options, faulty[i]);
    CHECK(TfLiteInterpreterCreate(model, options) == NULL);
    TfLiteInterpreterOptionsDelete(options);
  }
  interpreter = TfLiteInterpreterCreate(model, NULL);
  for (int i = 0; i < 2; ++i) {
    CHECK(TfLiteInterpreterModifyGraphWithDelegate(interpreter, faulty[i]) == kTfLiteDelegateError);
  }
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(attache_interpreter_delegated_count(interpreter) == 0);
  CHECK(((const float*)TfLiteTensorData(TfLiteInterpreterGetOutputTensor(interpreter, 0)))[0] == 0.0f);
  TfLiteInterpreterDelete(interpreter);
  TfLiteModelDelete(model);
}

/* A run that fails is an error. If the CPU takes over, the run says so once, and its outputs are valid. */
static void fallbacks(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteDelegate breaking = TfLiteDelegateCreate();
  breaking.Prepare = take_all_and_break;
  for (int falls_back = 0; falls_back < 2; ++falls_back) {
    TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
    TfLiteInterpreterOptionsAddDelegate(options, &breaking);
    TfLiteInterpreterOptionsSetEnableDelegateFallback(options, falls_back);
    TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
    TfLiteInterpreterOptionsDelete(options);
    CHECK(interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
    for (int i = 0; i < 2; ++i) TfLiteInterpreterGetInputTensor(interpreter, i)->data.f[0] = 1.0f;
    CHECK(TfLiteInterpreterInvoke(interpreter) == (falls_back ? kTfLiteDelegateError : kTfLiteError));
    float sum[12];
    const TfLiteTensor* out = TfLiteInterpreterGetOutputTensor(interpreter, 0);
    CHECK(TfLiteTensorCopyToBuffer(out, sum, sizeof(sum)) == kTfLiteOk && sum[0] == (falls_back ? 2.0f : 0.0f));
    CHECK(TfLiteInterpreterInvoke(interpreter) == (falls_back ? kTfLiteOk : kTfLiteError));
    TfLiteInterpreterDelete(interpreter);
  }
  TfLiteModelDelete(model);
}

static int copied, freed_handles;

static TfLiteStatus copy_from(
    TfLiteContext* context, TfLiteDelegate* delegate, TfLiteBufferHandle handle, TfLiteTensor* tensor) {
  (void)context;
  CHECK(tensor->delegate == delegate);
  for (size_t i = 0; i < tensor->bytes / sizeof(float); ++i) tensor->data.f[i] = (float)handle;
  ++copied;
  return kTfLiteOk;
}

static void free_handle(TfLiteContext* context, TfLiteDelegate* delegate, TfLiteBufferHandle* handle) {
  (void)context;
  (void)delegate;
  *handle = kTfLiteNullBufferHandle;
  ++freed_handles;
}

/* Buffers of a delegate are copied where memory is stale, and freed. */
static void handles(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, NULL);
  TfLiteModelDelete(model);
  TfLiteDelegate owner = TfLiteDelegateCreate();
  owner.CopyFromBufferHandle = copy_from;
  owner.FreeBufferHandle = free_handle;
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  TfLiteTensor* a = TfLiteInterpreterGetInputTensor(interpreter, 0);
  const int index = TfLiteInterpreterGetInputTensorIndex(interpreter, 0);
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, a, 5, &owner) == kTfLiteOk && freed_handles == 0);
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, a, 7, &owner) == kTfLiteOk && freed_handles == 1);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && copied == 0);
  a->data_is_stale = true;
  CHECK(TfLiteInterpreterEnsureTensorDataIsReadable(interpreter, index) == kTfLiteOk && copied == 1);
  CHECK(a->data.f[3] == 7.0f && !a->data_is_stale);
  a->data.f[3] = 1.0f;
  a->data_is_stale = true;
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && copied == 2);
  CHECK(TfLiteInterpreterGetOutputTensor(interpreter, 0)->data.f[3] == 7.0f);

  /* Delegates of the library have no buffers, and may be deleted first. */
  TfLiteDelegate* cpu = TfLiteXNNPackDelegateCreate(NULL);
  TfLiteTensor* sum = TfLiteInterpreterGetTensor(interpreter, TfLiteInterpreterGetOutputTensorIndex(interpreter, 0));
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, sum, 3, cpu) == kTfLiteOk && sum->buffer_handle == 3);
  TfLiteXNNPackDelegateDelete(cpu);
  sum->delegate = NULL;

  /* The buffer of an output whose bytes are stale before a run has the result, and is copied unless it may stay there. */
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, sum, 42, &owner) == kTfLiteOk);
  for (int may_stay = 0; may_stay < 2; ++may_stay) {
    copied = 0;
    sum->data_is_stale = true;
    TfLiteSetAllowBufferHandleOutput(interpreter, may_stay);
    CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && copied == !may_stay && sum->data_is_stale == may_stay);
    CHECK(may_stay || sum->data.f[3] == 42.0f);
  }
  TfLiteSetAllowBufferHandleOutput(interpreter, false);
  sum->data_is_stale = false;

  /* Stale bytes without a buffer are an error. */
  TfLiteTensor* b = TfLiteInterpreterGetInputTensor(interpreter, 1);
  b->data_is_stale = true;
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError);
  b->data_is_stale = false;
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  TfLiteInterpreterDelete(interpreter);
  CHECK(freed_handles == 3);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  operators(argv[1]);
  delegates(argv[2]);
  fallbacks(argv[2]);
  handles(argv[2]);
  return 0;
}
