//! Plans that are stored in a cache and restored from it.

use attache::gpu::{Precision, Submission};
use attache::{CacheFolder, GpuDelegate, GpuDelegateOptions, Interpreter, Model, Report};

use crate::common::Net;

/// Runs a model once on ascending inputs. Returns the bytes of its outputs, and the report.
fn outputs(model: &Model, options: GpuDelegateOptions) -> (Vec<Vec<u8>>, Report) {
    let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    let mut interpreter = Interpreter::builder(model).delegate(delegate).build().unwrap();
    for input in 0..interpreter.inputs().len() {
        let elements = interpreter.input(input).unwrap().elements();
        let values: Vec<f32> = (0..elements).map(|index| (index % 251) as f32 / 251.0).collect();
        interpreter.input(input).unwrap().quantize_from(&values).unwrap();
    }
    interpreter.invoke().unwrap();
    let outputs = (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec());
    (outputs.collect(), interpreter.report().clone())
}

/// Returns a model with an operator that stays on the CPU between two partitions, and weights.
fn model() -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[1, 64]);
    let weights: Vec<f32> = (0..64 * 32).map(|index| (index % 17) as f32 / 17.0 - 0.5).collect();
    let y = net.fully_connected(x, [32, 64], &weights);
    let z = net.relu(y, &[1, 32]);
    net.finish(&[x], &[y, z])
}

fn options() -> GpuDelegateOptions {
    GpuDelegateOptions::default().software(true)
}

#[test]
fn restored_plans_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let zoo = attache::zoo::model("lstm_128").unwrap();
    for (name, model) in [("own", model()), ("zoo", zoo)] {
        for submission in [Submission::Replay, Submission::Encoder] {
            for precision in [Precision::F32, Precision::F16] {
                let options = options().submission(submission).precision(precision);
                let label = format!("{name}, {submission:?}, {precision:?}");
                let (expected, report) = outputs(&model, options.clone());
                assert_eq!(report.restored_partitions, 0, "{label}");
                let cached = options.cache(folder.path().join("cache"));
                let (cold, report) = outputs(&model, cached.clone());
                assert_eq!((&cold, report.restored_partitions), (&expected, 0), "{label}");
                let (warm, restored) = outputs(&model, cached.clone());
                assert_eq!(warm, expected, "{label}");
                assert_eq!(restored.restored_partitions, restored.partitions, "{label}");
                assert_eq!(
                    (restored.dispatches, restored.variants, restored.weights_bytes),
                    (report.dispatches, report.variants, report.weights_bytes),
                    "{label}"
                );
                let is_said = restored.notes.iter().any(|note| note.contains("each start translates the shaders"));
                assert_eq!(is_said, submission == Submission::Encoder, "{label}: {:?}", restored.notes);
                let (named, report) = outputs(&model, cached.clone().model_token("a"));
                assert_eq!((&named, report.restored_partitions), (&expected, 0), "{label}");
                let (named, report) = outputs(&model, cached.model_token("a"));
                assert_eq!((&named, report.restored_partitions), (&expected, 1), "{label}");
            }
        }
    }
    let cache = CacheFolder::open(folder.path().join("cache")).unwrap();
    assert_eq!(cache.entries().unwrap().len(), 16);
    assert!(cache.entries().unwrap().iter().all(|entry| cache.verify(entry).is_ok()));
}
