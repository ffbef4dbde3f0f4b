//! Checks that both submission methods, replay and the encoder, return the same bits for all golden cases and
//! random graphs, in each precision and with both ways to compute quantized tensors.
//!
//! `ATTACHE_CASES` selects another folder of cases. The test compares the two methods only with each other;
//! `gpu_goldens` checks that the results are correct.
#![cfg(not(feature = "_poison"))]

#[allow(dead_code)] // This test uses only a part of it.
mod goldens;

use std::path::Path;
use std::sync::Arc;

use attache::gpu::{Backend, Precision, Quantized, Submission};
use attache::{Delegate, GpuDelegate, GpuDelegateOptions};
use goldens::{Case, assert_none, cases, cases_in, no_panics};

/// Options of a delegate: the precision, how quantized tensors are computed, and whether the software device
/// is treated like hardware, with emulated cooperative matrices.
type Form = (Precision, Quantized, bool);

static FORMS: [Form; 5] = [
    (Precision::F32, Quantized::Exact, true),
    (Precision::F32, Quantized::View, false),
    (Precision::F32F16, Quantized::View, false),
    (Precision::F16, Quantized::View, false),
    (Precision::F16, Quantized::Exact, true),
];

fn delegate((precision, quantized, as_hardware): Form, submission: Submission) -> Arc<dyn Delegate> {
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).as_hardware(as_hardware);
    let options =
        options.emulate_matrices(as_hardware).precision(precision).quantized(quantized).submission(submission);
    Arc::new(GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on"))
}

/// The outputs of an interpreter in bytes, and whether all of its operators ran on the GPU.
#[derive(PartialEq)]
struct Outcome {
    outputs: Vec<Vec<u8>>,
    all_delegated: bool,
}

/// Runs a case twice and returns the outcome of the second run, which may use data that the first one stored.
fn outcome(case: &Case, delegate: &Arc<dyn Delegate>) -> Result<Outcome, String> {
    let interpreter = case.interpreter(|builder| builder.delegate(delegate.clone()));
    let mut interpreter = interpreter.map_err(|error| error.to_string())?;
    case.write(&mut interpreter)?;
    for _ in 0..2 {
        interpreter.reset_variables();
        interpreter.invoke().map_err(|error| error.to_string())?;
    }
    let read = |output| interpreter.read_bytes(output).map(<[u8]>::to_vec).map_err(|error| error.to_string());
    let outputs = (0..interpreter.outputs().len()).map(read).collect::<Result<_, _>>()?;
    no_panics(&interpreter)?;
    Ok(Outcome { outputs, all_delegated: interpreter.placement().left_behind().next().is_none() })
}

/// Returns whether all of a case ran on the GPU, or an error if the two methods differ in their results or in the
/// operators that they ran.
fn compare(case: &Case, ways: &[Arc<dyn Delegate>; 2]) -> Result<bool, String> {
    let [replayed, encoded] = ways.each_ref().map(|way| outcome(case, way));
    let (replayed, encoded) = (replayed?, encoded?);
    if replayed.all_delegated != encoded.all_delegated {
        return Err("one way left operators to the CPU".into());
    }
    if replayed == encoded { Ok(replayed.all_delegated) } else { Err("other bits".into()) }
}

#[test]
fn replay_and_encoder_give_the_same_bits() {
    let cases = std::env::var_os("ATTACHE_CASES").map_or_else(cases, |folder| cases_in(Path::new(&folder), 1));
    let mut failures = Vec::new();
    for form in FORMS {
        let ways = [Submission::Replay, Submission::Encoder].map(|way| delegate(form, way));
        let mut delegated = 0;
        for case in &cases {
            match compare(case, &ways) {
                Ok(all_delegated) => delegated += usize::from(all_delegated),
                Err(what) => failures.push(format!("{}, {form:?}: {what}", case.name)),
            }
        }
        // A third of the cases has types or operators that devices lack; `gpu_goldens` holds the exact lists.
        assert!(delegated * 10 > cases.len() * 6, "only {delegated} of {} cases ran on the GPU, {form:?}", cases.len());
    }
    assert_none(&failures);
}
