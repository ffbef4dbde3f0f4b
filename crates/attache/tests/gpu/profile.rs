//! Profiles of runs on a GPU: the time of each dispatch in nanoseconds, with the operators that it computes.

use std::sync::Arc;

use attache::gpu::Submission;
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter};

use crate::common::{Net, run};

#[test]
fn dispatches_know_their_operators() {
    let mut net = Net::new();
    let x = net.tensor("x", &[4, 8]);
    let half = net.constant(&[0.5; 8]);
    let sum = net.add(x, half, &[4, 8]);
    let unknown = net.reshape(sum, &[32], &[32]);
    let product = net.multiply(unknown, unknown, &[32]);
    let y = net.relu(product, &[32]);
    let model = net.finish(&[x], &[sum, y]);
    for submission in [Submission::Replay, Submission::Encoder] {
        let options = GpuDelegateOptions::default().software(true).submission(submission);
        let plain = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
        let profiled = plain.profiled().unwrap();
        let build = |delegate| Interpreter::builder(&model).delegate(Arc::new(delegate)).build().unwrap();
        let (mut plain, mut interpreter) = (build(plain), build(profiled));
        assert_eq!(interpreter.placement().partitions, 1, "{}", interpreter.placement());
        assert!(interpreter.profile().is_err(), "nothing ran");
        run(&mut interpreter, &[&[-1.0; 32]]);
        run(&mut plain, &[&[-1.0; 32]]);
        assert_eq!(interpreter.read::<f32>(1).unwrap(), plain.read::<f32>(1).unwrap());
        assert!(plain.profile().unwrap().dispatches.is_empty());

        let profile = interpreter.profile().unwrap();
        assert_eq!(profile.dispatches.len(), interpreter.report().dispatches);
        assert_eq!(profile.barriers.is_some(), submission == Submission::Replay);
        let mut seen: Vec<usize> = Vec::new();
        for dispatch in &profile.dispatches {
            assert_eq!(dispatch.partition, 0);
            assert!(0.0 <= dispatch.dispatch.begin_ns && dispatch.dispatch.begin_ns <= dispatch.dispatch.end_ns);
            seen.extend(dispatch.operators.iter().map(|(index, _)| index));
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 2, 3], "the reshape has no work");
        let names = profile.dispatches.iter().flat_map(|dispatch| &dispatch.operators).map(|(_, name)| name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["ADD", "MUL", "RELU"]);
        let first = &profile.dispatches[0].dispatch;
        assert_eq!((first.operations, first.bytes_written), (32, 128));
    }
}
