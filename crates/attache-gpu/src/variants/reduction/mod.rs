//! Reductions: of axes, rows and windows, scans and the largest elements.

pub(super) mod arg_reduce;
pub(super) mod reduce;
pub(super) mod reduce_group;
pub(super) mod rows;
pub(super) mod rows_group;
pub(super) mod rows_held;
pub(super) mod scan;
pub(super) mod top_k;
pub(super) mod window;
pub(super) mod window_group;
