//! Built-in models: the published architectures of well-known networks, with synthetic weights.
//!
//! Contract: a name always gives the same bytes, on every machine; the operators, shapes and names of tensors are those
//! of the published files; activations keep a healthy size on input that is uniform in [-1, 1). What they are not:
//! trained. They time a device and test a runtime where no file can be fetched; their classes mean nothing.
//!
//! One network, one file, and a row of [`MODELS`].

mod mobilenet_v1;
mod network;
mod weights;

/// A built-in model.
struct Entry {
    name: &'static str,
    build: fn() -> Vec<u8>,
}

/// Every built-in model, sorted by name.
static MODELS: &[Entry] = &[Entry { name: "mobilenet_v1_1.0_224", build: mobilenet_v1::build }];

/// The names of the built-in models, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|entry| entry.name)
}

/// The bytes of a built-in model as a `.tflite` file; `None` where no model has that name.
pub fn build(name: &str) -> Option<Vec<u8>> {
    MODELS.iter().find(|entry| entry.name == name).map(|entry| (entry.build)())
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::*;

    #[test]
    fn every_model_opens_and_is_the_same_each_time() {
        assert!(names().is_sorted());
        for name in names() {
            let bytes = build(name).unwrap();
            assert!(bytes == build(name).unwrap(), "{name}");
            let model = Model::from_bytes(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.signatures().len(), 1, "{name}");
        }
        assert_eq!(build("mobilenet"), None);
    }
}
