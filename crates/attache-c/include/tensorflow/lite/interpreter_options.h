// Options of interpreters, in C++.

#ifndef TENSORFLOW_LITE_INTERPRETER_OPTIONS_H_
#define TENSORFLOW_LITE_INTERPRETER_OPTIONS_H_

namespace tflite {

class InterpreterOptions {
 public:
  // Whether intermediate tensors keep the values of the last run, for debugging.
  void SetPreserveAllTensors(bool value = true) { preserves_all_tensors_ = value; }
  bool GetPreserveAllTensors() const { return preserves_all_tensors_; }

  // The options below are notes without effect, since the library does in any case what they are for: memory is planned for
  // the whole run, shared by tensors and given back; casts of constants are computed once; composites are replaced by their
  // operators. Delegates get partitions as the library forms them.
  void SetEnsureDynamicTensorsAreReleased(bool value = true) { releases_dynamic_tensors_ = value; }
  bool GetEnsureDynamicTensorsAreReleased() const { return releases_dynamic_tensors_; }
  void OptimizeMemoryForLargeTensors(int value = 1 << 20) {
    if (value <= 0) return;
    large_tensors_ = value;
    releases_dynamic_tensors_ = true;
  }
  int GetDynamicAllocationForLargeTensors() const { return large_tensors_; }
  void SetDisableDelegateClustering(bool value = true) { disables_clustering_ = value; }
  bool GetDisableDelegateClustering() const { return disables_clustering_; }
  void SetCacheConstantCastOp(bool value) { caches_casts_ = value; }
  bool GetCacheConstantCastOp() const { return caches_casts_; }
  void SetShloCompositeInlining(bool value) { inlines_composites_ = value; }
  bool GetShloCompositeInlining() const { return inlines_composites_; }

 private:
  bool preserves_all_tensors_ = false;
  bool releases_dynamic_tensors_ = false;
  int large_tensors_ = 0;
  bool disables_clustering_ = false;
  bool caches_casts_ = false;
  bool inlines_composites_ = false;
};

}  // namespace tflite

#endif
