//! Variants that implement reductions over axes, rows and windows, prefix sums (scans), scattered updates, arg-max and
//! arg-min, and top-k.

pub(super) mod arg_reduce;
pub(super) mod arg_reduce_group;
mod ordering;
pub(super) mod partial_results;
pub(super) mod reduce;
pub(super) mod reduce_group;
pub(super) mod rows;
pub(super) mod rows_group;
pub(super) mod rows_staged;
pub(super) mod rows_vectors;
pub(super) mod scan;
pub(super) mod scan_group;
pub(super) mod scatter;
pub(super) mod suppress;
pub(super) mod top_k;
pub(super) mod top_k_group;
pub(super) mod window;
pub(super) mod window_group;
