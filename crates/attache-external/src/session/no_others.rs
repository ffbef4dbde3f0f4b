//! Stands for `others.rs` in the smallest libraries, where delegates see the subgraph alone that they prepare.

use attache_abi::TfLiteContext;

use super::{View, unavailable};

#[derive(Debug, Default)]
pub(super) struct Others;

impl Others {
    pub(super) fn has(&self, _: usize) -> bool {
        false
    }

    pub(super) fn acquire(&mut self, _: &View, subgraph: usize) -> Result<*mut TfLiteContext, String> {
        Err(unavailable(subgraph as i32))
    }
}
