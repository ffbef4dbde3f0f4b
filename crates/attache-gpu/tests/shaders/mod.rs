//! Checks of shaders without a device: naga validates the source, and translates it for graphics APIs that
//! this machine may lack.

use naga::back::{hlsl, msl};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Checks that a shader's source is valid WGSL, and that naga can translate it for Metal and DX12. Returns
/// the reason if not.
pub(crate) fn check(source: &str) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))?;
    let mut validator =
        Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32);
    let info = validator.validate(&module).map_err(|error| error.emit_to_string(source))?;
    let metal = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    msl::write_string(&module, &info, &metal, &Default::default())
        .map_err(|error| format!("Metal: {error}\n{source}"))?;
    let dx12 =
        hlsl::Options { shader_model: hlsl::ShaderModel::V6_2, fake_missing_bindings: true, ..Default::default() };
    let (mut text, pipeline) = (String::new(), hlsl::PipelineOptions::default());
    let written = hlsl::Writer::new(&mut text, &dx12, &pipeline).write(&module, &info, None);
    written.map(drop).map_err(|error| format!("DX12: {error}\n{source}"))
}
