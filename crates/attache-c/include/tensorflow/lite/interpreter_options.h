// Options of interpreters, in C++.

#ifndef TENSORFLOW_LITE_INTERPRETER_OPTIONS_H_
#define TENSORFLOW_LITE_INTERPRETER_OPTIONS_H_

namespace tflite {

class InterpreterOptions {
 public:
  // Whether intermediate tensors keep the values of the last run, for debugging.
  void SetPreserveAllTensors(bool value = true) { preserves_all_tensors_ = value; }
  bool GetPreserveAllTensors() const { return preserves_all_tensors_; }

 private:
  bool preserves_all_tensors_ = false;
};

}  // namespace tflite

#endif
