//! Both ways of handing work to a GPU, replayed commands and commands encoded anew, give the same bits: for every golden
//! case and random graph, in every precision and both ways with quantized tensors.
//!
//! Cases of another folder are taken where `ATTACHE_CASES` names one. What is compared are the two ways with each other;
//! whether they are right is for `gpu_goldens`.
#![cfg(not(feature = "poison"))]

#[allow(dead_code)] // of what is there, this file uses a part
mod goldens;

use std::path::Path;
use std::sync::Arc;

use attache::gpu::{Backend, Precision, Quantized, Submission};
use attache::{Delegate, GpuDelegate, GpuDelegateOptions};
use goldens::{Case, assert_none, cases, cases_in};

/// In which numbers, how with quantized tensors, and whether a software device gets the kernels of hardware.
type Form = (Precision, Quantized, bool);

static FORMS: [Form; 4] = [
    (Precision::F32, Quantized::Exact, true),
    (Precision::F32, Quantized::View, false),
    (Precision::F32F16, Quantized::View, false),
    (Precision::F16, Quantized::View, false),
];

fn delegate((precision, quantized, as_hardware): Form, submission: Submission) -> Arc<dyn Delegate> {
    let options = GpuDelegateOptions::default().backend(Backend::Vulkan).as_hardware(as_hardware);
    let options = options.precision(precision).quantized(quantized).submission(submission);
    Arc::new(GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on"))
}

/// What a case's second run gives, by output: the first may keep what the second uses.
fn outputs(case: &Case, delegate: &Arc<dyn Delegate>) -> Result<Vec<Vec<u8>>, String> {
    let interpreter = case.interpreter(|builder| builder.delegate(delegate.clone()));
    let mut interpreter = interpreter.map_err(|error| error.to_string())?;
    case.write(&mut interpreter)?;
    for _ in 0..2 {
        interpreter.reset_variables();
        interpreter.invoke().map_err(|error| error.to_string())?;
    }
    let read = |output| interpreter.read_bytes(output).map(<[u8]>::to_vec).map_err(|error| error.to_string());
    (0..interpreter.outputs().len()).map(read).collect()
}

/// What is wrong, if anything: other bits by the two ways, or none.
fn difference(case: &Case, ways: &[Arc<dyn Delegate>; 2]) -> Option<String> {
    match ways.each_ref().map(|way| outputs(case, way)) {
        [Ok(replayed), Ok(encoded)] => (replayed != encoded).then(|| "other bits".into()),
        [Err(error), _] | [_, Err(error)] => Some(error),
    }
}

#[test]
fn replay_and_encoder_give_the_same_bits() {
    let cases = std::env::var_os("ATTACHE_CASES").map_or_else(cases, |folder| cases_in(Path::new(&folder), 1));
    let mut failures = Vec::new();
    for form in FORMS {
        let ways = [Submission::Replay, Submission::Encoder].map(|way| delegate(form, way));
        for case in &cases {
            let failed = difference(case, &ways);
            failures.extend(failed.map(|what| format!("{}, {form:?}: {what}", case.name)));
        }
    }
    assert_none(&failures);
}
