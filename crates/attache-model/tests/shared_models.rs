//! Checks that all models of the shared collection can be opened, and that reading a corrupted copy of a
//! model terminates without a panic.

use std::path::PathBuf;

use attache_model::{Model, ModelErrorKind};

/// Returns the paths of the `.tflite` files of the shared collection (`$ATTACHE_SHARED`, by default
/// `../shared` beside the workspace).
fn shared_models() -> Vec<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("ATTACHE_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let folder = shared.join("models");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!("{}: {error}; set ATTACHE_SHARED to the folder that holds the shared models", folder.display())
    });
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut models: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "tflite")).collect();
    models.sort();
    assert!(models.len() >= 20, "{} holds only {} models", folder.display(), models.len());
    models
}

#[test]
fn shared_models_open() {
    for path in shared_models() {
        let model = Model::from_path(&path).unwrap_or_else(|error| panic!("{error}"));
        let main = &model.subgraphs()[0];
        assert!(!main.inputs.is_empty() && !main.outputs.is_empty() && !main.operators.is_empty(), "{path:?}");
        assert!(main.tensors.iter().any(|tensor| tensor.constant.is_some()), "{path:?}");
        for (index, operator) in main.operators.iter().enumerate() {
            assert!(!operator.code.name().starts_with("BUILTIN_"), "{path:?}");
            assert_eq!(model.operator_view(0, index).outputs().unwrap().len(), operator.outputs.len());
        }
        let copy = Model::from_bytes(model.bytes().to_vec()).unwrap();
        assert_eq!(copy.subgraphs().len(), model.subgraphs().len());
    }
}

#[test]
fn labels_and_normalization_are_read() {
    let paths = shared_models();
    let named = |stem: &str| {
        let path = paths.iter().find(|path| path.file_stem().is_some_and(|it| it == stem)).expect(stem);
        Model::from_path(path).unwrap()
    };
    for stem in ["mobilenet_v1_0.25_224_quant", "mobilenet_v2_1.0_224_ptq_int8"] {
        let model = named(stem);
        let labels = model.labels().unwrap().expect("labels");
        assert_eq!((labels.len(), labels[0].as_str()), (1001, "background"), "{stem}");
        let normalization = model.normalization(0).expect("normalization");
        assert!(normalization.mean.iter().chain(&normalization.std).all(|it| (127.0..=128.0).contains(it)), "{stem}");
    }
    assert_eq!(named("face_landmark").labels().unwrap(), None);
}

/// Returns a closure that returns a pseudorandom number below its argument: a linear congruential generator,
/// which yields the same numbers in every run.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    }
}

#[test]
fn mutants_of_shared_models_return() {
    let mut next = random(1);
    for path in shared_models() {
        let original = std::fs::read(&path).unwrap();
        for _ in 0..40 {
            let mut bytes = original.clone();
            // Tables are at the start or at the end of a file, with the weights between them.
            let edge = bytes.len().min(20_000);
            for _ in 0..1 + next(8) {
                let position = 8 + next(edge - 8);
                let position = if next(2) == 0 { position } else { original.len() - 1 - position % original.len() };
                bytes[position] = next(256) as u8;
            }
            let _ = Model::from_bytes(bytes);
        }
        let cut = Model::from_bytes(original[..original.len() / 2].to_vec()).unwrap_err();
        assert_eq!(cut.kind(), ModelErrorKind::Corrupt, "{path:?}: {cut}");
    }
}
