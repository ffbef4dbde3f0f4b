/* Random sequences of calls within the contract: objects are made, resized, run and deleted in any order.

   Arguments: a model that adds two inputs of [1,2,2,3] floats, the number of sequences, and "gpu" or "cpu". */

#include "attache/attache.h"
#include "check.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/delegates/gpu/delegate.h"
#include "tensorflow/lite/delegates/xnnpack/xnnpack_delegate.h"

#define SLOTS 3

static unsigned state = 12345;

static unsigned below(unsigned limit) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % limit;
}

typedef struct {
  TfLiteInterpreter* it;
  int rows;
  bool allocated;
} Slot;

static TfLiteModel* model;
static Slot slots[SLOTS];
static TfLiteDelegate* delegates[SLOTS];
static bool with_gpu;
static const char* path;

static TfLiteDelegate* make_delegate(void) {
  return with_gpu ? TfLiteGpuDelegateV2Create(NULL) : TfLiteXNNPackDelegateCreate(NULL);
}

static void delete_delegate(TfLiteDelegate* delegate) {
  if (with_gpu) {
    TfLiteGpuDelegateV2Delete(delegate);
  } else {
    TfLiteXNNPackDelegateDelete(delegate);
  }
}

static void make(Slot* slot) {
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  if (below(2)) TfLiteInterpreterOptionsSetNumThreads(options, (int32_t)below(3));
  if (below(2)) TfLiteInterpreterOptionsEnableCancellation(options, true);
  if (below(3) == 0) TfLiteInterpreterOptionsSetEnableDelegateFallback(options, true);
  TfLiteDelegate* delegate = delegates[below(SLOTS)];
  if (delegate && below(2)) TfLiteInterpreterOptionsAddDelegate(options, delegate);
  if (below(4) == 0) {
    AttacheCompiledModel* compiled = attache_compiled_model_create(model, options);
    slot->it = attache_compiled_model_create_interpreter(compiled);
    attache_compiled_model_delete(compiled);
  } else {
    slot->it = TfLiteInterpreterCreate(model, options);
  }
  CHECK(slot->it != NULL);
  slot->rows = 2;
  slot->allocated = false;
  TfLiteInterpreterOptionsDelete(options);
}

static void resize(Slot* slot) {
  const int rows = 1 + (int)below(5);
  const int dims[4] = {1, rows, 2, 3};
  for (int32_t i = 0; i < 2; ++i) CHECK(TfLiteInterpreterResizeInputTensor(slot->it, i, dims, 4) == kTfLiteOk);
  slot->allocated = slot->allocated && rows == slot->rows;
  slot->rows = rows;
}

static void run(Slot* slot) {
  if (!slot->allocated) {
    CHECK(TfLiteInterpreterAllocateTensors(slot->it) == kTfLiteOk);
    slot->allocated = true;
  }
  const size_t count = (size_t)slot->rows * 6;
  float values[30], read[30];
  TfLiteTensor* a = TfLiteInterpreterGetInputTensor(slot->it, 0);
  TfLiteTensor* b = TfLiteInterpreterGetInputTensor(slot->it, 1);
  const TfLiteTensor* sum = TfLiteInterpreterGetOutputTensor(slot->it, 0);
  CHECK(TfLiteTensorByteSize(sum) == count * sizeof(float));
  for (size_t i = 0; i < count; ++i) values[i] = (float)below(100);
  CHECK(TfLiteTensorCopyFromBuffer(a, values, count * sizeof(float)) == kTfLiteOk);
  if (below(2)) {
    memcpy(TfLiteTensorData(b), values, count * sizeof(float));
  } else {
    CHECK(TfLiteTensorCopyFromBuffer(b, values, count * sizeof(float)) == kTfLiteOk);
  }
  const float* early = below(2) ? TfLiteTensorData(sum) : NULL;
  CHECK(TfLiteInterpreterInvoke(slot->it) == kTfLiteOk);
  CHECK(TfLiteTensorCopyToBuffer(sum, read, count * sizeof(float)) == kTfLiteOk);
  for (size_t i = 0; i < count; ++i) CHECK(read[i] == 2.0f * values[i] && (!early || early[i] == read[i]));
}

static void step(void) {
  Slot* slot = &slots[below(SLOTS)];
  TfLiteDelegate** delegate = &delegates[below(SLOTS)];
  if (below(8) == 0) {
    delete_delegate(*delegate);
    *delegate = below(2) ? make_delegate() : NULL;
    return;
  }
  if (below(16) == 0) {
    TfLiteModelDelete(model);
    model = TfLiteModelCreateFromFile(path);
    CHECK(model != NULL);
    return;
  }
  if (!slot->it) {
    make(slot);
    return;
  }
  switch (below(6)) {
    case 0:
      TfLiteInterpreterDelete(slot->it);
      slot->it = NULL;
      return;
    case 1:
      resize(slot);
      return;
    case 2:
      if (*delegate) {
        CHECK(TfLiteInterpreterModifyGraphWithDelegate(slot->it, *delegate) == kTfLiteOk);
        slot->allocated = true;
      }
      return;
    case 3:
      CHECK(TfLiteInterpreterResetVariableTensors(slot->it) == kTfLiteOk);
      attache_text_free(attache_interpreter_placement(slot->it));
      return;
    default:
      run(slot);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  path = argv[1];
  with_gpu = strcmp(argv[3], "gpu") == 0;
  model = TfLiteModelCreateFromFile(path);
  CHECK(model != NULL);
  for (int sequence = atoi(argv[2]); sequence > 0; --sequence) {
    for (unsigned steps = 4 + below(12); steps > 0; --steps) step();
    for (int i = 0; i < SLOTS; ++i) {
      const int first = (int)below(2);
      if (first == 0) TfLiteInterpreterDelete(slots[i].it);
      delete_delegate(delegates[i]);
      if (first == 1) TfLiteInterpreterDelete(slots[i].it);
      slots[i].it = NULL;
      delegates[i] = NULL;
    }
  }
  TfLiteModelDelete(model);
  return 0;
}
