// A classic delegate that takes ADD and MUL of floats of equal shapes. The option "fault" makes it misbehave in one of the
// ways that the interface allows.
#include "abi.h"

#include <stdio.h>

typedef struct {
  TfLiteDelegate base;
  char fault[32];
} Delegate;

typedef struct {
  Delegate* delegate;
  int count;
  int* codes;
  int (*tensors)[3];
  int scratch;
} Kernel;

static int g_alive;

// The buffers of the device, by their handles.
static float g_buffers[16][64];
static int g_handles;

// For the tests: the number of delegates and kernels that were not freed.
int arithmetic_alive(void) { return g_alive; }

// For the tests: what each run calls, unless it is null.
void (*arithmetic_called)(void);

static bool Has(const Delegate* delegate, const char* fault) { return strcmp(delegate->fault, fault) == 0; }

static bool SameShape(const TfLiteTensor* a, const TfLiteTensor* b) {
  return a->dims->size == b->dims->size && memcmp(a->dims->data, b->dims->data, sizeof(int) * (size_t)a->dims->size) == 0;
}

static bool Takes(TfLiteContext* context, const TfLiteNode* node, const TfLiteRegistration* registration) {
  if (registration->builtin_code != kAdd && registration->builtin_code != kMul) return false;
  const TfLiteActivationParams* params = node->builtin_data;
  const TfLiteTensor* a = &context->tensors[node->inputs->data[0]];
  const TfLiteTensor* b = &context->tensors[node->inputs->data[1]];
  return params != NULL && params->activation == 0 && a->type == kFloat32 && b->type == kFloat32 && SameShape(a, b);
}

static void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  const TfLiteDelegateParams* params = (const TfLiteDelegateParams*)buffer;
  (void)length;
  Delegate* delegate = (Delegate*)params->delegate;
  if (Has(delegate, "init")) return (void*)(uintptr_t)-1;
  Kernel* kernel = calloc(1, sizeof(Kernel));
  kernel->delegate = delegate;
  kernel->count = params->nodes_to_replace->size;
  kernel->codes = calloc((size_t)kernel->count, sizeof(int));
  kernel->tensors = calloc((size_t)kernel->count, sizeof(int[3]));
  for (int i = 0; i < kernel->count; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    if (context->GetNodeAndRegistration(context, params->nodes_to_replace->data[i], &node, &registration)) abort();
    kernel->codes[i] = registration->builtin_code;
    kernel->tensors[i][0] = node->inputs->data[0];
    kernel->tensors[i][1] = node->inputs->data[1];
    kernel->tensors[i][2] = node->outputs->data[0];
  }
  kernel->scratch = -1;
  g_alive += 1;
  return kernel;
}

static void Free(TfLiteContext* context, void* data) {
  Kernel* kernel = data;
  (void)context;
  free(kernel->codes);
  free(kernel->tensors);
  free(kernel);
  g_alive -= 1;
}

// Every tensor between the nodes of a kernel gets memory of the delegate's own, and a scratch tensor is asked for.
static TfLiteStatus PrepareKernel(TfLiteContext* context, TfLiteNode* node) {
  Kernel* kernel = node->user_data;
  if (Has(kernel->delegate, "kernel")) {
    context->ReportError(context, "the kernel of %d nodes refuses", kernel->count);
    return kTfLiteError;
  }
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  if (Has(kernel->delegate, "shape")) {
    TfLiteIntArray* dims = NewIntArray(1);
    dims->data[0] = 1;
    return context->ResizeTensor(context, output, dims);
  }
  if (Has(kernel->delegate, "handle") && output->buffer_handle < 0) {
    output->delegate = &kernel->delegate->base;
    output->buffer_handle = g_handles++;
    g_alive += 1;
  }
  if (Has(kernel->delegate, "dynamic") || Has(kernel->delegate, "grow")) {
    output->allocation_type = kDynamic;
    output->data.raw = NULL;
  }
  if (context->AddTensors(context, 1, &kernel->scratch) != kTfLiteOk) return kTfLiteError;
  TfLiteTensor* scratch = &context->tensors[kernel->scratch];
  scratch->type = kFloat32;
  scratch->allocation_type = kArenaRw;
  TfLiteIntArray* dims = NewIntArray(1);
  dims->data[0] = (int)Elements(context->tensors[kernel->tensors[0][0]].dims) * kernel->count;
  free(node->temporaries);
  node->temporaries = NewIntArray(1);
  node->temporaries->data[0] = kernel->scratch;
  return context->ResizeTensor(context, scratch, dims);
}

static float* Data(TfLiteContext* context, const Kernel* kernel, int step, int tensor) {
  for (int i = 0; i < step; ++i) {
    if (kernel->tensors[i][2] == tensor) {
      size_t elements = Elements(context->tensors[tensor].dims);
      return context->tensors[kernel->scratch].data.f + elements * (size_t)i;
    }
  }
  return context->tensors[tensor].data.f;
}

static bool IsOutput(const TfLiteNode* node, int tensor) {
  for (int i = 0; i < node->outputs->size; ++i) {
    if (node->outputs->data[i] == tensor) return true;
  }
  return false;
}

static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  Kernel* kernel = node->user_data;
  if (arithmetic_called != NULL) arithmetic_called();
  if (Has(kernel->delegate, "invoke")) {
    context->ReportError(context, "the device is %s", "on fire");
    return kTfLiteError;
  }
  if (Has(kernel->delegate, "dynamic") || Has(kernel->delegate, "grow")) {
    TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
    TfLiteIntArray* dims = NewIntArray(output->dims->size);
    memcpy(dims->data, output->dims->data, sizeof(int) * (size_t)dims->size);
    if (Has(kernel->delegate, "grow")) dims->data[0] += 1;
    if (context->ResizeTensor(context, output, dims) != kTfLiteOk) return kTfLiteError;
  }
  for (int i = 0; i < kernel->count; ++i) {
    const float* a = Data(context, kernel, i, kernel->tensors[i][0]);
    const float* b = Data(context, kernel, i, kernel->tensors[i][1]);
    size_t elements = Elements(context->tensors[kernel->tensors[i][0]].dims);
    float* made = context->tensors[kernel->scratch].data.f + elements * (size_t)i;
    for (size_t j = 0; j < elements; ++j) made[j] = kernel->codes[i] == kAdd ? a[j] + b[j] : a[j] * b[j];
    if (IsOutput(node, kernel->tensors[i][2])) {
      TfLiteTensor* output = &context->tensors[kernel->tensors[i][2]];
      bool is_on_device = Has(kernel->delegate, "handle");
      memcpy(is_on_device ? g_buffers[output->buffer_handle] : output->data.f, made, elements * sizeof(float));
      output->data_is_stale = is_on_device;
    }
  }
  return kTfLiteOk;
}

static TfLiteStatus CopyFrom(TfLiteContext* context, TfLiteDelegate* base, int handle, TfLiteTensor* tensor) {
  (void)context, (void)base;
  memcpy(tensor->data.raw, g_buffers[handle], tensor->bytes);
  return kTfLiteOk;
}

static void FreeHandle(TfLiteContext* context, TfLiteDelegate* base, int* handle) {
  (void)context, (void)base;
  *handle = -1;
  g_alive -= 1;
}

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteDelegate* base) {
  Delegate* delegate = (Delegate*)base;
  if (Has(delegate, "prepare")) {
    context->ReportError(context, "no %s here", "device");
    return kTfLiteError;
  }
  if (context->recommended_num_threads < 1) return kTfLiteError;
  TfLiteIntArray* plan;
  if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  TfLiteIntArray* taken = NewIntArray(plan->size);
  taken->size = 0;
  for (int i = 0; i < plan->size; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    if (context->GetNodeAndRegistration(context, plan->data[i], &node, &registration) != kTfLiteOk) return kTfLiteError;
    if (Takes(context, node, registration)) taken->data[taken->size++] = plan->data[i];
  }
  if (Has(delegate, "nothing")) taken->size = 0;
  if (Has(delegate, "twice") && taken->size > 1) taken->data[1] = taken->data[0];
  if (Has(delegate, "absent") && taken->size > 0) taken->data[0] = 12345;
  TfLiteDelegateParams* partitions = NULL;
  int count = -1;
  bool is_wrong = Has(delegate, "twice") || Has(delegate, "absent");
  TfLiteStatus previewed = context->PreviewDelegatePartitioning(context, taken, &partitions, &count);
  if ((previewed == kTfLiteOk) == is_wrong) abort();
  int total = 0;
  for (int i = 0; i < count; ++i) total += partitions[i].nodes_to_replace->size;
  if (!is_wrong && total != taken->size) abort();
  TfLiteRegistration kernel = {.init = Init, .free = Free, .prepare = PrepareKernel, .invoke = Invoke,
                               .builtin_code = kDelegate, .custom_name = "Arithmetic", .version = 1};
  if (Has(delegate, "two")) {
    // Additions first, then multiplications.
    TfLiteStatus status = kTfLiteOk;
    for (int code = 0; code < 2 && status == kTfLiteOk; ++code) {
      TfLiteIntArray* some = NewIntArray(taken->size);
      some->size = 0;
      for (int i = 0; i < taken->size; ++i) {
        TfLiteNode* node;
        TfLiteRegistration* registration;
        context->GetNodeAndRegistration(context, taken->data[i], &node, &registration);
        if ((registration->builtin_code == kMul) == code) some->data[some->size++] = taken->data[i];
      }
      status = context->ReplaceNodeSubsetsWithDelegateKernels(context, kernel, some, base);
      free(some);
    }
    free(taken);
    return status;
  }
  TfLiteStatus status = context->ReplaceNodeSubsetsWithDelegateKernels(context, kernel, taken, base);
  free(taken);
  return status;
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  Delegate* delegate = calloc(1, sizeof(Delegate));
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(keys[i], "fault") != 0) {
      char text[128];
      snprintf(text, sizeof(text), "the option \"%s\" is unknown", keys[i]);
      report(text);
      free(delegate);
      return NULL;
    }
    snprintf(delegate->fault, sizeof(delegate->fault), "%s", values[i]);
  }
  delegate->base = (TfLiteDelegate){.Prepare = Prepare, .CopyFromBufferHandle = CopyFrom, .FreeBufferHandle = FreeHandle};
  g_alive += 1;
  return &delegate->base;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  free(delegate);
  g_alive -= 1;
}
