//! Checks the shaders of all golden cases, in each precision and storage, with naga's validator and its writers for
//! Metal and DX12.

use std::collections::BTreeSet;

use attache::gpu::{Backend, GpuStage, Precision, stage};
use attache::{GpuDelegate, GpuDelegateOptions, Limits};

use crate::goldens::{assert_none, cases};
use crate::shaders;

#[test]
fn every_shader_can_be_written_for_every_interface() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut failures = Vec::new();
    // Shaders exchange values within subgroups on Vulkan alone.
    let plain =
        GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).as_hardware(true).no_subgroups(true);
    let in_16_bits = plain.clone().precision(Precision::F16);
    let in_pairs = in_16_bits.clone().no_shader_f16(true);
    let on_matrices = in_16_bits.clone().emulate_matrices(true);
    for options in [plain, in_16_bits, in_pairs, on_matrices] {
        let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
        for case in cases() {
            let text = stage(case.model(), 0, &[], &delegate, GpuStage::Wgsl, &Limits::default()).unwrap_or_default();
            // A comment line with the name of the kernel variant precedes each shader.
            for shader in text.split("\n// ").map(|part| part.split_once('\n').map_or("", |(_, shader)| shader)) {
                if !shader.trim().is_empty() && seen.insert(shader.to_owned()) {
                    failures.extend(shaders::check(shader).err().map(|error| format!("{}: {error}", case.name)));
                }
            }
        }
    }
    println!("{} shaders", seen.len());
    for way in ["enable f16;", " unpack2x16float(", "(pack2x16float(", "= add_products("] {
        assert!(seen.iter().any(|shader| shader.contains(way)), "no shader has {way}");
    }
    assert!(seen.len() > 100, "only {} shaders", seen.len());
    assert_none(&failures);
}
