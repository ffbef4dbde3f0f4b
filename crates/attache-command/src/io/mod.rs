//! Reads and writes files: models, arrays, pictures, labels, golden cases. Also compares arrays and generates
//! random ones.

pub(crate) mod array;
pub(crate) mod compare;
pub(crate) mod files;
pub(crate) mod golden;
pub(crate) mod labels;
pub(crate) mod message;
pub(crate) mod npy;
pub(crate) mod numbers;
pub(crate) mod picture;
pub(crate) mod places;
pub(crate) mod random;
pub(crate) mod source;
pub(crate) mod texts;
pub(crate) mod twister;
pub(crate) mod walk;
