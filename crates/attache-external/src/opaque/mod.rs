#![allow(unsafe_code)]
//! The opaque API of TensorFlow Lite: functions through which delegates and operators read contexts, nodes and tensors
//! without knowing their layout. Opaque contexts, nodes, tensors and delegates are the structs of
//! [`attache_abi`].
//!
//! C code calls these functions by name, so what loads such code has to export them. For null pointers they return null,
//! 0 or an error, unless they are said to demand otherwise. They are documented by TensorFlow Lite's `c_api_opaque.h`.
//! Such code also calls the functions on arrays and on the memory of tensors (`arrays`, `tensor_memory`) of `common.h`.
#![allow(non_snake_case, clippy::missing_safety_doc, missing_docs)]

/// Declares functions of C, and the table of their addresses. A panic makes a function return what follows `else`.
macro_rules! exports {
    ($(
        $(#[$about:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block else $failed:expr;
    )*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                crate::guard::guard($failed, move || $body)
            }
        )*

        pub(super) static TABLE: super::Table = super::Table(&[$($name as *const ()),*]);
    };
}

pub mod arrays;
pub mod context;
pub mod delegate;
pub mod node;
pub mod operator;
pub mod tensor;
pub mod tensor_builder;
pub mod tensor_memory;
pub mod text;

/// Keeps the functions in a program in which nothing calls them, so that the linker can export them.
pub fn keep_exported() {
    let tables = [
        &arrays::TABLE,
        &context::TABLE,
        &delegate::TABLE,
        &node::TABLE,
        &operator::TABLE,
        &tensor::TABLE,
        &tensor_builder::TABLE,
        &tensor_memory::TABLE,
        &text::TABLE,
    ];
    tables.iter().for_each(|table| {
        std::hint::black_box(table.0);
    });
}

/// The addresses of exported functions.
#[derive(Debug)]
struct Table(&'static [*const ()]);

// SAFETY: nothing reads through the addresses.
unsafe impl Sync for Table {}
