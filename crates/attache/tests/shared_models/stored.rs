//! Real models on the CPU give the same bits with packed weights from a folder.

use std::path::Path;

use attache::{Interpreter, Model};

/// Writes inputs, runs the model once, and returns the bytes of all outputs.
fn outputs(model: &Model, folder: Option<&Path>) -> Vec<Vec<u8>> {
    let builder = Interpreter::builder(model).model_token("model");
    let builder = folder.map_or(builder.clone(), |folder| builder.cache(folder));
    let mut interpreter = builder.build().unwrap();
    for input in 0..interpreter.inputs().len() {
        let count = interpreter.input(input).unwrap().elements();
        let values: Vec<f32> = (0..count).map(|index| (index * 7919 % 2003) as f32 / 1001.0 - 1.0).collect();
        interpreter.input(input).unwrap().quantize_from(&values).unwrap();
    }
    interpreter.invoke().unwrap();
    (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect()
}

#[test]
fn stored_weights_give_the_same_bits() {
    let shared = std::env::var_os("ATTACHE_SHARED").unwrap_or_else(|| "../../../shared".into());
    let mut models = 0;
    for entry in std::fs::read_dir(Path::new(&shared).join("models")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "tflite") {
            continue;
        }
        let (model, folder) = (Model::from_path(&path).unwrap(), tempfile::tempdir().unwrap());
        let expected = outputs(&model, None);
        for start in ["cold", "warm"] {
            assert!(outputs(&model, Some(folder.path())) == expected, "{} {start}", path.display());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{}", path.display());
        models += 1;
    }
    assert!(models > 5, "{models} models");
}
