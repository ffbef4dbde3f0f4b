//! Checks the layout of structs at compile time, where pointers have 64 bits: on x86-64 and AArch64, Windows included,
//! types have the same sizes and alignments.

#![cfg(target_pointer_width = "64")]

use std::mem::{offset_of, size_of};

use crate::params::*;
use crate::*;

/// Checks a struct's size and the offsets of its fields.
macro_rules! layout {
    ($($name:ident($size:literal) { $($field:ident: $offset:literal),* $(,)? })*) => {$(
        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(offset_of!($name, $field) == $offset);)*
    )*};
}

layout! {
    TfLiteTensor(112) {
        kind: 0, data: 8, dims: 16, params: 24, allocation_type: 32, bytes: 40, allocation: 48, name: 56, delegate: 64,
        buffer_handle: 72, data_is_stale: 76, is_variable: 77, quantization: 80, sparsity: 96, dims_signature: 104,
    }
    TfLiteQuantization(16) { kind: 0, params: 8 }
    TfLiteQuantizationParams(8) { scale: 0, zero_point: 4 }
    TfLiteAffineQuantization(24) { scale: 0, zero_point: 8, quantized_dimension: 16 }
    TfLiteBlockwiseQuantization(16) { scale: 0, zero_point: 4, blocksize: 8, quantized_dimension: 12 }
    TfLiteMultiAxisQuantization(32) { scales: 0, zero_points: 8, blocksize: 16, quantized_dimensions: 24 }
    TfLiteDimensionMetadata(24) { format: 0, dense_size: 4, array_segments: 8, array_indices: 16 }
    TfLiteSparsity(32) { traversal_order: 0, block_map: 8, dim_metadata: 16, dim_metadata_size: 24 }
    TfLiteNode(80) {
        inputs: 0, outputs: 8, intermediates: 16, temporaries: 24, user_data: 32, builtin_data: 40,
        custom_initial_data: 48, custom_initial_data_size: 56, delegate: 64, might_have_side_effect: 72,
    }
    TfLiteRegistration(88) {
        init: 0, free: 8, prepare: 16, invoke: 24, profiling_string: 32, builtin_code: 40, custom_name: 48,
        version: 56, registration_external: 64, async_kernel: 72, inplace_operator: 80,
    }
    TfLiteRegistrationV3(80) { registration_external: 64, async_kernel: 72 }
    TfLiteRegistrationV2(72) { registration_external: 64 }
    TfLiteRegistrationV1(64) { version: 56 }
    TfLiteDelegate(56) {
        data_: 0, Prepare: 8, CopyFromBufferHandle: 16, CopyToBufferHandle: 24, FreeBufferHandle: 32, flags: 40,
        opaque_delegate_builder: 48,
    }
    TfLiteOpaqueDelegateBuilder(48) {
        data: 0, Prepare: 8, CopyFromBufferHandle: 16, CopyToBufferHandle: 24, FreeBufferHandle: 32, flags: 40,
    }
    TfLiteDelegateParams(32) { delegate: 0, nodes_to_replace: 8, input_tensors: 16, output_tensors: 24 }
    TfLiteOpaqueDelegateParams(40) {
        delegate: 0, delegate_data: 8, nodes_to_replace: 16, input_tensors: 24, output_tensors: 32,
    }
    TfLiteStableDelegate(32) {
        delegate_abi_version: 0, delegate_name: 8, delegate_version: 16, delegate_plugin: 24,
    }
    TfLiteOpaqueDelegatePlugin(24) { create: 0, destroy: 8, get_delegate_errno: 16 }
    TfLiteGpuDelegateOptionsV2(56) {
        is_precision_loss_allowed: 0, inference_preference: 4, inference_priority1: 8, inference_priority2: 12,
        inference_priority3: 16, experimental_flags: 24, max_delegated_partitions: 32, serialization_dir: 40,
        model_token: 48,
    }
    TfLiteExternalDelegateOptions(4120) { lib_path: 0, count: 8, keys: 16, values: 2064, insert: 4112 }
    TfLiteContext(200) {
        tensors_size: 0, GetExecutionPlan: 8, tensors: 16, impl_: 24, ResizeTensor: 32, ReportError: 40, AddTensors: 48,
        GetNodeAndRegistration: 56, ReplaceNodeSubsetsWithDelegateKernels: 64, recommended_num_threads: 72,
        GetExternalContext: 80, SetExternalContext: 88, allow_fp32_relax_to_fp16: 96, profiler: 104,
        AllocatePersistentBuffer: 112, AllocateBufferForEval: 120, RequestScratchBufferInArena: 128,
        GetScratchBuffer: 136, ResizeTensorExplicit: 144, PreviewDelegatePartitioning: 152, GetTensor: 160,
        GetEvalTensor: 168, GetModelMetadata: 176, AcquireSubgraphContext: 184, ReleaseSubgraphContext: 192,
    }
    TfLiteAddParams(8) { activation: 0, pot_scale_int16: 4 }
    TfLiteConvParams(28) {
        padding: 0, stride_width: 4, stride_height: 8, activation: 12, dilation_width_factor: 16,
        dilation_height_factor: 20, quantized_bias_type: 24,
    }
    TfLiteFullyConnectedParams(16) {
        activation: 0, weights_format: 4, keep_num_dims: 8, asymmetric_quantize_inputs: 9, quantized_bias_type: 12,
    }
    TfLitePoolParams(40) {
        padding: 0, stride_width: 4, stride_height: 8, filter_width: 12, filter_height: 16, activation: 20,
        computed: 24,
    }
    TfLiteReshapeParams(36) { shape: 0, num_dimensions: 32 }
    TfLiteStablehloCompositeParams(32) { name: 0, subgraph_index: 8, version: 12, attributes: 16, attributes_size: 24 }
    TfLiteBidirectionalSequenceLSTMParams(16) {
        activation: 0, cell_clip: 4, proj_clip: 8, merge_outputs: 12, time_major: 13, asymmetric_quantize_inputs: 14,
    }
    TfLiteBidirectionalSequenceRNNParams(12) {
        time_major: 0, activation: 4, merge_outputs: 8, asymmetric_quantize_inputs: 9,
    }
    TfLiteBucketizeParams(16) { num_boundaries: 0, boundaries: 8 }
    TfLiteConv3DParams(32) {
        padding: 0, stride_width: 4, stride_height: 8, stride_depth: 12, dilation_width_factor: 16,
        dilation_height_factor: 20, dilation_depth_factor: 24, activation: 28,
    }
    TfLiteFakeQuantParams(16) { min: 0, max: 4, num_bits: 8, narrow_range: 12 }
    TfLiteStablehloCaseParams(84) { branch_subgraph_indices: 0, num_branches: 80 }
    TfLiteStablehloGatherParams(296) {
        offset_dims: 0, num_offset_dims: 64, collapsed_slice_dims: 72, num_collapsed_slice_dims: 136,
        start_index_map: 144, num_start_index_map: 208, index_vector_dim: 216, slice_sizes: 224, num_slice_sizes: 288,
        indices_are_sorted: 292,
    }
    TfLiteStablehloPadParams(192) { edge_padding_low: 0, edge_padding_high: 64, interior_padding: 128 }
    TfLiteStablehloReduceWindowParams(392) {
        window_dimensions: 0, window_strides: 64, base_dilations: 128, window_dilations: 192, padding: 256,
        body_subgraph_index: 384,
    }
    TfLiteStablehloScatterParams(240) {
        indices_are_sorted: 0, update_window_dims: 8, num_update_window_dims: 72, inserted_window_dims: 80,
        num_inserted_window_dims: 144, scatter_dims_to_operand_dims: 152, num_scatter_dims_to_operand_dims: 216,
        index_vector_dim: 224, unique_indices: 232, update_computation_subgraph_index: 236,
    }
    TfLiteVarHandleParams(16) { container: 0, shared_name: 8 }
    TfLiteStridedSliceParams(24) { begin_mask: 0, shrink_axis_mask: 16, offset: 20 }
}
