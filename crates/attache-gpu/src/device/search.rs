//! The search for an adapter: which graphics APIs are asked, in which order, and which of their adapters is chosen.
//!
//! Asking a graphics API loads its driver, which takes tens of milliseconds. So each is asked once, and the next one
//! only if those before it have no usable hardware that the options allow.

use std::collections::BTreeSet;

use attache_base::Stopwatch;

use super::vulkan::validated;
use super::{Adapter, Backend, DeviceOptions, describe, unusable};
use crate::kernel::{GpuError, GpuErrorKind};

/// The graphics APIs in the order in which they are asked.
const ORDER: [Backend; 4] = match cfg!(target_vendor = "apple") {
    true => [Backend::Metal, Backend::Vulkan, Backend::Dx12, Backend::Gl],
    false => [Backend::Vulkan, Backend::Dx12, Backend::Metal, Backend::Gl],
};

/// An adapter that was chosen, and what it took, in milliseconds.
pub(super) struct Found {
    pub(super) adapter: wgpu::Adapter,
    /// Creating the instances of the graphics APIs that were asked.
    pub(super) instance_ms: f64,
    /// Everything else.
    pub(super) search_ms: f64,
}

/// An adapter of type `A`, and what decides whether it is chosen.
struct Candidate<A> {
    adapter: A,
    info: wgpu::AdapterInfo,
    /// The reason why shaders cannot run on it; `None` if they can.
    unusable: Option<String>,
}

/// Returns all adapters of all graphics APIs, including those that cannot be opened, for which
/// [`Adapter::unusable`] gives the reason.
#[must_use]
pub fn adapters() -> Vec<Adapter> {
    enumerate(wgpu::Backends::all(), false, &mut 0.0).iter().map(describe).collect()
}

/// Returns the first Vulkan adapter, whose devices have the validation layer. For tests of devices that callers open.
#[doc(hidden)]
#[must_use]
pub fn validated_adapter() -> Option<wgpu::Adapter> {
    enumerate(wgpu::Backends::VULKAN, true, &mut 0.0).into_iter().next()
}

/// Returns what to do to have one of these graphics APIs; `None` if this build has one.
fn missing(backends: wgpu::Backends) -> Option<&'static str> {
    const REMEDY: &str = "this build has no such graphics API; on a platform that has it, build with the features \
        `vulkan`, `gles`, `metal` or `dx12` of the crate attache, else ask for another";
    (!wgpu::Instance::enabled_backend_features().intersects(backends)).then_some(REMEDY)
}

/// Returns the adapters of these graphics APIs, and adds the milliseconds that creating their instance takes to
/// `instance_ms`.
fn enumerate(backends: wgpu::Backends, validation: bool, instance_ms: &mut f64) -> Vec<wgpu::Adapter> {
    if missing(backends).is_some() {
        return Vec::new();
    }
    let start = Stopwatch::start();
    let is_vulkan = backends == wgpu::Backends::VULKAN;
    let instance = if validation && is_vulkan { validated() } else { None };
    let instance = instance.unwrap_or_else(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        // Without the debug flag, which is the default in unoptimised builds.
        descriptor.flags = if validation { wgpu::InstanceFlags::VALIDATION } else { wgpu::InstanceFlags::empty() };
        wgpu::Instance::new(descriptor)
    });
    *instance_ms += start.milliseconds();
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    adapters.into_iter().filter(|adapter| Backend::of(adapter.get_info().backend).is_some()).collect()
}

/// Whether this machine may have hardware that is reached through OpenGL. On Linux, hardware has a device
/// file.
fn may_have_open_gl() -> bool {
    const FILES: [&str; 3] = ["/dev/dri", "/dev/nvidiactl", "/dev/dxg"];
    !cfg!(target_os = "linux") || FILES.iter().any(|file| std::path::Path::new(file).exists())
}

/// Returns the preferred one of the usable adapters that match the options.
pub(super) fn choose(options: &DeviceOptions) -> Result<Found, GpuError> {
    let (start, mut instance_ms) = (Stopwatch::start(), 0.0);
    let ask = |interface: Backend| {
        let adapters = enumerate(interface.mask(), options.validation, &mut instance_ms);
        let candidate =
            |adapter: wgpu::Adapter| Candidate { info: adapter.get_info(), unusable: unusable(&adapter), adapter };
        adapters.into_iter().map(candidate).collect()
    };
    let adapter = best(options, may_have_open_gl(), ask)?;
    Ok(Found { adapter, instance_ms, search_ms: start.milliseconds() - instance_ms })
}

/// Returns the preferred one of the usable candidates that match the options, which `ask` returns by graphics API.
fn best<A>(
    options: &DeviceOptions,
    may_have_open_gl: bool,
    mut ask: impl FnMut(Backend) -> Vec<Candidate<A>>,
) -> Result<A, GpuError> {
    let name = options.adapter.as_ref().map(|text| text.to_lowercase());
    let is_named = |info: &wgpu::AdapterInfo| name.as_ref().is_none_or(|text| info.name.to_lowercase().contains(text));
    let mut best: Option<Candidate<A>> = None;
    let (mut refused, mut names) = (None, BTreeSet::new());
    for interface in ORDER.into_iter().filter(|interface| options.backend.is_none_or(|backend| backend == *interface)) {
        // OpenGL takes long to open, and its driver may open Vulkan once more. Unless it is asked for, it is opened only
        // where it may have a better adapter.
        let is_needed = interface != Backend::Gl || may_have_open_gl || best.is_none() && !options.hardware_only;
        if options.backend.is_none() && !is_needed {
            continue;
        }
        for candidate in ask(interface) {
            let info = &candidate.info;
            if options.hardware_only && is_software(info) {
                continue;
            }
            names.insert(format!("\"{}\"", info.name));
            match &candidate.unusable {
                _ if !is_named(info) => {}
                Some(reason) => refused = refused.or_else(|| Some((info.clone(), reason.clone()))),
                None if best.as_ref().is_none_or(|best| rank(info) < rank(&best.info)) => best = Some(candidate),
                None => {}
            }
        }
        if best.as_ref().is_some_and(|best| !is_software(&best.info)) {
            break;
        }
    }
    match best {
        Some(best) => Ok(best.adapter),
        None => Err(GpuError::new(GpuErrorKind::NoDevice, no_adapter(options, refused.as_ref(), names))),
    }
}

fn is_software(info: &wgpu::AdapterInfo) -> bool {
    info.device_type == wgpu::DeviceType::Cpu
}

/// Returns the rank of an adapter: the lowest is preferred.
fn rank(info: &wgpu::AdapterInfo) -> (u32, bool) {
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    };
    (kind, info.backend == wgpu::Backend::Gl)
}

/// Returns the message that there is no adapter as the options ask for, with a remedy. `refused` is an adapter that
/// cannot be used, and the reason; `names` are the names, in quotes, of those that the options allow apart from the
/// name.
fn no_adapter(
    options: &DeviceOptions,
    refused: Option<&(wgpu::AdapterInfo, String)>,
    names: BTreeSet<String>,
) -> String {
    if let Some((info, reason)) = refused {
        let interface = Backend::of(info.backend).map_or("?", Backend::name);
        return format!("\"{}\" can't be used through {interface}: {reason}; update its driver", info.name);
    }
    let backend = options.backend.map_or("any interface".to_owned(), |backend| backend.to_string());
    let kind = if options.hardware_only { "hardware GPU" } else { "GPU" };
    let adapter = options.adapter.as_ref().map_or(String::new(), |text| format!(" whose name holds \"{text}\""));
    let names: Vec<String> = names.into_iter().collect();
    let remedy = missing(options.backend.map_or(wgpu::Backends::all(), Backend::mask)).map_or_else(
        || match (names.as_slice(), options.hardware_only) {
            (names @ [_, ..], _) => format!("ask for one of {}", names.join(", ")),
            ([], false) => "install a Vulkan driver (on Debian, mesa-vulkan-drivers has a software one)".to_owned(),
            ([], true) => "install the driver of the GPU, or allow software adapters: \
                GpuDelegateOptions::software(true), ATTACHE_SOFTWARE=1, or --delegate gpu of the command attache"
                .to_owned(),
        },
        str::to_owned,
    );
    format!("there is no {kind} through {backend}{adapter}; {remedy}")
}

#[cfg(test)]
mod tests {
    use wgpu::DeviceType::{Cpu, DiscreteGpu, IntegratedGpu};

    use super::*;

    /// The adapters of a machine: graphics API, name, kind, and why it cannot be used.
    type Machine = [(Backend, &'static str, wgpu::DeviceType, Option<&'static str>)];

    /// Returns the name of the chosen adapter, or the error, and the graphics APIs that were asked.
    fn choose(
        machine: &Machine,
        options: &DeviceOptions,
        may_have_open_gl: bool,
    ) -> (Result<String, String>, Vec<Backend>) {
        let mut asked = Vec::new();
        let ask = |interface: Backend| {
            asked.push(interface);
            let here = machine.iter().filter(|(backend, ..)| *backend == interface);
            here.map(|(backend, name, kind, unusable)| {
                let backend = match backend {
                    Backend::Vulkan => wgpu::Backend::Vulkan,
                    Backend::Metal => wgpu::Backend::Metal,
                    Backend::Dx12 => wgpu::Backend::Dx12,
                    Backend::Gl => wgpu::Backend::Gl,
                };
                let mut info = wgpu::AdapterInfo::new(*kind, backend);
                info.name = (*name).to_owned();
                Candidate { adapter: (*name).to_owned(), info, unusable: unusable.map(str::to_owned) }
            })
            .collect()
        };
        let chosen = best(options, may_have_open_gl, ask).map_err(|error| error.to_string());
        (chosen, asked)
    }

    fn hardware_only() -> DeviceOptions {
        DeviceOptions { hardware_only: true, ..DeviceOptions::default() }
    }

    #[test]
    fn where_the_first_interface_has_hardware_no_other_is_asked() {
        let first = ORDER[0];
        let machine = [
            (first, "software", Cpu, None),
            (first, "integrated", IntegratedGpu, None),
            (first, "discrete", DiscreteGpu, None),
            (Backend::Gl, "discrete through OpenGL", DiscreteGpu, None),
        ];
        for options in [DeviceOptions::default(), hardware_only()] {
            assert_eq!(choose(&machine, &options, true), (Ok("discrete".to_owned()), vec![first]));
        }
        let named = DeviceOptions { adapter: Some("Integ".to_owned()), ..DeviceOptions::default() };
        assert_eq!(choose(&machine, &named, true), (Ok("integrated".to_owned()), vec![first]));
        let through = DeviceOptions { backend: Some(Backend::Gl), ..DeviceOptions::default() };
        assert_eq!(choose(&machine, &through, false), (Ok("discrete through OpenGL".to_owned()), vec![Backend::Gl]));
    }

    #[test]
    fn software_is_taken_where_no_interface_has_hardware() {
        let software = [(Backend::Vulkan, "a", Cpu, None), (Backend::Gl, "b", Cpu, None)];
        let but_gl = ORDER[..3].to_vec();
        assert_eq!(choose(&software, &DeviceOptions::default(), false), (Ok("a".to_owned()), but_gl.clone()));
        assert_eq!(choose(&software, &DeviceOptions::default(), true), (Ok("a".to_owned()), ORDER.to_vec()));
        let (error, asked) = choose(&software, &hardware_only(), false);
        assert!(error.unwrap_err().contains("allow software adapters"));
        assert_eq!(asked, but_gl);
        assert_eq!(choose(&software[1..], &DeviceOptions::default(), false), (Ok("b".to_owned()), ORDER.to_vec()));
        let mixed = [(Backend::Vulkan, "a", Cpu, None), (Backend::Gl, "b", IntegratedGpu, None)];
        assert_eq!(choose(&mixed, &DeviceOptions::default(), true), (Ok("b".to_owned()), ORDER.to_vec()));
        assert_eq!(choose(&mixed, &hardware_only(), true), (Ok("b".to_owned()), ORDER.to_vec()));
    }

    #[test]
    fn an_error_names_what_was_refused_or_could_be_asked_for() {
        let old = [(Backend::Vulkan, "old", DiscreteGpu, Some("it has no compute shaders"))];
        let (error, _) = choose(&old, &DeviceOptions::default(), false);
        let text = "\"old\" can't be used through vulkan: it has no compute shaders; update its driver";
        assert_eq!(error.unwrap_err(), text);
        let others = [(Backend::Vulkan, "b", DiscreteGpu, None), (Backend::Gl, "a", DiscreteGpu, None)];
        let named = DeviceOptions { adapter: Some("x".to_owned()), ..DeviceOptions::default() };
        let (error, _) = choose(&others, &named, true);
        assert_eq!(
            error.unwrap_err(),
            "there is no GPU through any interface whose name holds \"x\"; ask for one of \"a\", \"b\""
        );
        let (error, asked) = choose(&others, &DeviceOptions { hardware_only: true, ..named }, false);
        assert!(error.unwrap_err().ends_with("ask for one of \"b\""));
        assert_eq!(asked, ORDER[..3]);
    }
}
