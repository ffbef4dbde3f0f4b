//! The GPU through `attache`'s own delegate.
