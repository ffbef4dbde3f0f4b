//! Code generated from `schema/*.fbs`; the head of each schema holds the command. Nothing here is written by hand.
//!
//! Contract: each `generated/NAME.hash` is the FNV-1a hash of the `schema/NAME.fbs` that the code was generated from.

/// TensorFlow Lite's file format.
#[rustfmt::skip]
#[path = "generated/tflite_generated.rs"]
#[allow(warnings, clippy::all, unsafe_code, missing_docs, unreachable_pub)]
mod tflite_generated;

/// TFLite Metadata.
#[rustfmt::skip]
#[path = "generated/metadata_generated.rs"]
#[allow(warnings, clippy::all, unsafe_code, missing_docs, unreachable_pub)]
mod metadata_generated;

pub(crate) use metadata_generated::metadata;
pub use tflite_generated::tflite as schema;

#[cfg(test)]
mod tests {
    /// The 64-bit FNV-1a hash, as 16 hexadecimal digits.
    fn fnv1a(bytes: &[u8]) -> String {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
    }

    #[test]
    fn generated_code_is_of_its_schema() {
        let generated = [
            ("tflite", include_bytes!("../schema/tflite.fbs").as_slice(), include_str!("generated/tflite.hash")),
            ("metadata", include_bytes!("../schema/metadata.fbs"), include_str!("generated/metadata.hash")),
        ];
        for (name, source, hash) in generated {
            let found = fnv1a(source);
            assert_eq!(hash.trim(), found, "schema/{name}.fbs changed: generate it anew (see its head)");
        }
    }
}
