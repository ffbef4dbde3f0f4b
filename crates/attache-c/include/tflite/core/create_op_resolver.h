/* create_op_resolver.h under another path. */

#ifndef TFLITE_CORE_CREATE_OP_RESOLVER_H_
#define TFLITE_CORE_CREATE_OP_RESOLVER_H_

#include "tensorflow/lite/create_op_resolver.h"

#endif
