//! `--variant all`: which variants of the GPU's kernels have seen a case.

use attache::Report as Figures;
use serde_json::{Value, json};

use super::Mismatch;
use crate::console::Console;
use crate::device::Device;
use crate::failure::Failure;

/// A variant, and the cases that it had a kernel in.
struct Seen {
    name: &'static str,
    /// What is missing on this device before it has any.
    lacks: Option<&'static str>,
    cases: usize,
}

/// Which variants have seen a case.
pub(super) struct Coverage(Vec<Seen>);

impl Coverage {
    /// Of a GPU's variants: none has seen any yet.
    pub(super) fn of(device: &Device) -> Result<Self, Failure> {
        let variants = device.variants();
        if variants.is_empty() {
            return Err(Failure::unsupported(
                "variants are the GPU's; --delegate gpu takes a software adapter as well",
            ));
        }
        Ok(Self(variants.into_iter().map(|(name, lacks)| Seen { name, lacks, cases: 0 }).collect()))
    }

    /// What is wrong with a case in every form that its kernels can take: as they are by default, and with each variant
    /// that would change that.
    pub(super) fn check(
        &mut self,
        device: &Device,
        checked: impl Fn(&Device) -> (Vec<Mismatch>, Figures),
    ) -> Vec<Mismatch> {
        let (mut mismatches, figures) = checked(device);
        for seen in &mut self.0 {
            let mut written = figures.variants.contains(seen.name);
            if figures.alternatives.contains(seen.name) {
                let (others, figures) = checked(&device.with_variant(seen.name));
                written |= figures.variants.contains(seen.name);
                let told = |other: Mismatch| Mismatch { message: format!("{}: {}", seen.name, other.message), ..other };
                mismatches.extend(others.into_iter().map(told));
            }
            seen.cases += usize::from(written);
        }
        mismatches
    }

    /// The variants that should have seen a case, and have not.
    pub(super) fn unseen(&self) -> Vec<&'static str> {
        self.0.iter().filter(|seen| seen.cases == 0 && seen.lacks.is_none()).map(|seen| seen.name).collect()
    }

    /// The cases of each, by name.
    pub(super) fn cases(&self) -> Value {
        self.0.iter().map(|seen| (seen.name.to_owned(), json!(seen.cases))).collect()
    }

    /// A line for each.
    pub(super) fn lines(&self, console: &Console) -> Vec<String> {
        let line = |seen: &Seen| match (seen.cases, seen.lacks) {
            (0, Some(lacks)) => format!("{}: no case: it needs {lacks}", seen.name),
            (0, None) => console.red(&format!("{}: no case", seen.name)),
            (1, _) => format!("{}: 1 case", seen.name),
            (cases, _) => format!("{}: {cases} cases", seen.name),
        };
        self.0.iter().map(line).collect()
    }
}
