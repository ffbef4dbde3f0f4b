// Operators of the program's, in C++.

#ifndef TENSORFLOW_LITE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_OP_RESOLVER_H_

#include "tensorflow/lite/mutable_op_resolver.h"

#endif
