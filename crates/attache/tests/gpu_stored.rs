//! Checks that a GPU delegate that restores its plans from a folder returns the bits of one that makes them, for all golden
//! cases and random graphs, in each precision, with both ways to compute quantized tensors and both submission methods.
//!
//! `ATTACHE_CASES` selects another folder of cases.
#![cfg(not(feature = "_poison"))]

#[allow(dead_code)] // This test uses only a part of it.
mod goldens;

use std::path::Path;

use attache::gpu::{Backend, Precision, Quantized, Submission};
use attache::{GpuDelegate, GpuDelegateOptions};
use goldens::{Case, assert_none, cases, cases_in, no_panics};

static FORMS: [(Precision, Quantized); 4] = [
    (Precision::F32, Quantized::Exact),
    (Precision::F32, Quantized::View),
    (Precision::F32F16, Quantized::Exact),
    (Precision::F16, Quantized::View),
];

/// Runs a case once with a delegate of its own, as a new process does. Returns the bytes of the outputs, and the numbers
/// of partitions and of those that were restored.
fn outcome(case: &Case, options: &GpuDelegateOptions) -> Result<(Vec<Vec<u8>>, usize, usize), String> {
    let delegate =
        GpuDelegate::new(options.clone()).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    let interpreter = case.interpreter(|builder| builder.delegate(delegate.clone()));
    let mut interpreter = interpreter.map_err(|error| error.to_string())?;
    case.write(&mut interpreter)?;
    interpreter.invoke().map_err(|error| error.to_string())?;
    let read = |output| interpreter.read_bytes(output).map(<[u8]>::to_vec).map_err(|error| error.to_string());
    let outputs = (0..interpreter.outputs().len()).map(read).collect::<Result<_, _>>()?;
    no_panics(&interpreter)?;
    Ok((outputs, interpreter.report().partitions, interpreter.report().restored_partitions))
}

/// Runs a case from a cold start without a folder, and from a cold and a warm start with one. Returns the number of
/// partitions, or an error if the bits differ or not all partitions were restored.
fn compare(case: &Case, options: &GpuDelegateOptions, folder: &Path) -> Result<usize, String> {
    let cached = options.clone().cache(folder);
    let (expected, partitions, _) = outcome(case, options)?;
    // Cases with equal models share an entry, so this may be a warm start too.
    if outcome(case, &cached)?.0 != expected {
        return Err("a start with a folder has other bits".into());
    }
    let (warm, _, restored) = outcome(case, &cached)?;
    if restored != partitions {
        return Err(format!("{restored} of {partitions} partitions were restored"));
    }
    if warm == expected { Ok(partitions) } else { Err("a warm start has other bits".into()) }
}

#[test]
fn restored_plans_give_the_bits_of_new_ones() {
    let cases = std::env::var_os("ATTACHE_CASES").map_or_else(cases, |folder| cases_in(Path::new(&folder), 1));
    let mut failures = Vec::new();
    for (precision, quantized) in FORMS {
        for submission in [Submission::Replay, Submission::Encoder] {
            let folder = tempfile::tempdir().unwrap();
            let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan);
            let options = options.precision(precision).quantized(quantized).submission(submission);
            // The device and its pipelines stay open, so that the test does not take hours.
            let _device = GpuDelegate::new(options.clone());
            let mut delegated = 0;
            for case in &cases {
                match compare(case, &options, folder.path()) {
                    Ok(partitions) => delegated += usize::from(partitions > 0),
                    Err(what) => {
                        failures.push(format!("{}, {precision:?} {quantized:?} {submission:?}: {what}", case.name));
                    }
                }
            }
            // Of a third of the cases, the operators or types have no form there.
            assert!(delegated * 10 > cases.len() * 6, "only {delegated} of {} cases ran on the GPU", cases.len());
        }
    }
    assert_none(&failures);
}
