//! What a model file holds, and what the GPU would make of it, before anything runs.

pub(crate) mod advice;
pub(crate) mod kind;
pub(crate) mod survey;
