//! [`Writer`] builds a [`Shader`]: its bindings, parameters and source.
//!
//! Everything that differs between two layers of the same kind (extents, strides, offsets) is a parameter. Depending on
//! the device, parameters are literals in the source, or are read from a small buffer.

mod indexed_load;

use std::fmt::Write;
use std::sync::Arc;

use attache_base::Shape;
use attache_gpu_ir::{IndexMap, Program, ValueId};

use self::indexed_load::fetching;
pub(crate) use self::indexed_load::{coordinates, keeps_vectors};
use crate::kernel::{Matrices, StorageFormat, StorageFormats, View};
use crate::wgsl::Context;
use crate::wgsl::accessor::Array;
use crate::wgsl::expression::{FLOAT_OF, calls_float_of, literal, saturated, vector};

/// Invocations of a work group, unless a variant chooses otherwise.
pub(crate) const GROUP: u32 = 64;

/// Maximum work groups along the first axis of a dispatch of [`Writer::linear`]. Devices allow 65,535.
const MAX_GROUPS: u32 = 32768;

/// A buffer that a shader reads or writes.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value of the program, read-only.
    Read(ValueId),
    /// Floats packed for this shader from constants of the program, read-only.
    Packed(Packed<f32>),
    /// 32-bit words packed for this shader from constants of the program, read-only.
    Words(Packed<u32>),
    /// A value of the program that the shader writes, and the format in which it is stored.
    Write(ValueId, StorageFormat),
}

/// Weights packed for a shader from constants. The host copy can be released once it has been uploaded; the count
/// remains.
#[derive(Clone, Debug)]
pub struct Packed<T>(Arc<[T]>);

impl<T> Packed<T> {
    fn new(elements: Arc<[T]>) -> Self {
        Self(elements)
    }

    /// Returns the packed elements.
    #[must_use]
    pub fn elements(&self) -> &[T] {
        &self.0
    }

    /// Returns the number of packed elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// A shader and everything that its dispatch needs.
#[derive(Clone, Debug)]
pub struct Shader {
    /// The name of the variant that generated the shader.
    pub variant: &'static str,
    /// The WGSL source. Two shaders with equal source share a pipeline.
    pub source: String,
    /// The buffers, bound in this order from binding 1 on. Binding 0 is the buffer of parameters.
    pub bindings: Vec<Binding>,
    /// The 32-bit words of the parameters' buffer. Empty if parameters are literals in the source.
    pub params: Vec<u32>,
    /// The number of work groups to dispatch along x, y and z.
    pub groups: [u32; 3],
}

impl Shader {
    /// Whether the shader uses cooperative matrix operations.
    #[must_use]
    pub fn multiplies_matrices(&self) -> bool {
        self.source.contains("coopMultiplyAdd")
    }
}

/// Builds a [`Shader`].
pub(crate) struct Writer<'a> {
    program: &'a Program,
    storages: &'a StorageFormats,
    views: &'a [View],
    variant: &'static str,
    /// The buffers so far, each with the WGSL type of its elements.
    bindings: Vec<(Binding, String)>,
    params: Vec<u32>,
    functions: String,
    /// The address space of the parameters' buffer, if there is one.
    space: Option<&'static str>,
    /// See [`DeviceLimits::subgroup`](crate::kernel::DeviceLimits::subgroup).
    subgroup: Option<usize>,
    /// Whether the shader uses the f16 type.
    halves: bool,
    /// Whether the shader uses cooperative matrix operations.
    matrices: bool,
    /// The output, if each invocation computes four elements in sequence and collects their bytes in one word.
    collected: Option<Array>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(variant: &'static str, context: &Context<'a>) -> Self {
        let Context { program, storages, views, limits, .. } = context;
        let (bindings, params, functions) = (Vec::new(), Vec::new(), String::new());
        let (space, subgroup) = (limits.params.space(), limits.subgroup);
        let (halves, matrices, collected) = (false, false, None);
        Self {
            program,
            storages,
            views,
            variant,
            bindings,
            params,
            functions,
            space,
            subgroup,
            halves,
            matrices,
            collected,
        }
    }

    /// Returns the number of invocations of every subgroup, if shaders can exchange values within one.
    pub(crate) fn subgroup(&self) -> Option<usize> {
        self.subgroup
    }

    /// Adds a parameter, whose value may differ between dispatches of the shader, and returns WGSL of type
    /// `u32` that reads it.
    pub(crate) fn param(&mut self, value: usize) -> String {
        self.word(u32::try_from(value).expect("extents of checked values fit 32 bits"))
    }

    /// Adds a parameter, whose value may differ between dispatches of the shader, and returns WGSL of type
    /// `i32` that reads it.
    pub(crate) fn signed_param(&mut self, value: i64) -> String {
        let word = self.word(i32::try_from(value).expect("offsets of checked values fit 32 bits") as u32);
        format!("i32({word})")
    }

    /// Adds a parameter, whose value may differ between dispatches of the shader, and returns WGSL of type
    /// `f32` that reads it.
    pub(crate) fn float_param(&mut self, value: f32) -> String {
        if self.space.is_none() {
            return self.float(value);
        }
        format!("bitcast<f32>({})", self.word(value.to_bits()))
    }

    /// Adds a 32-bit parameter and returns WGSL of type `u32` that reads it: a literal, or an access of the
    /// parameters' buffer.
    fn word(&mut self, value: u32) -> String {
        if self.space.is_none() {
            return format!("{value}u");
        }
        let index = self.params.len();
        self.params.push(value);
        format!("params[{}].{}", index / 4, ["x", "y", "z", "w"][index % 4])
    }

    /// Returns a float as a literal in the source. Adds the function `float_of` if it needs it.
    fn float(&mut self, value: f32) -> String {
        let text = literal(value);
        if calls_float_of(&text) {
            self.function(FLOAT_OF);
        }
        format!("({text})")
    }

    /// Binds a value of the program for reading, `vector_width` elements at a time. A view is read from its
    /// source through its index map.
    pub(crate) fn read(&mut self, id: ValueId, vector_width: usize) -> Array {
        let views = self.views;
        if let Some(view) = views.iter().find(|view| view.value == id) {
            return self.fetch(view.source, &view.map, vector_width);
        }
        self.read_stored(id, vector_width)
    }

    /// Binds a stored value of the program for reading, `vector_width` elements at a time.
    pub(crate) fn read_stored(&mut self, id: ValueId, vector_width: usize) -> Array {
        let array = self.bind(Binding::Read(id), self.storages.of(id), vector_width);
        self.functions.push_str(&array.reader());
        array
    }

    /// Binds `source` for reading elements of the output of an index map over it, `vector_width` elements at
    /// a time.
    pub(crate) fn fetch(&mut self, source: ValueId, map: &IndexMap, vector_width: usize) -> Array {
        let shape = self.program.shape(source);
        let width = if keeps_vectors(map, shape) { vector_width } else { 1 };
        let array = self.read_stored(source, width);
        self.through(array, (map, shape), [width, vector_width])
    }

    /// Returns the output of an index map over `array`, which has this shape and is read `width` elements at a time, for
    /// reading `vector_width` elements at a time.
    pub(crate) fn through(
        &mut self,
        array: Array,
        map: (&IndexMap, &Shape),
        [width, vector_width]: [usize; 2],
    ) -> Array {
        let text = fetching(self, &array, map, [width, vector_width]);
        self.functions.push_str(&text);
        let name = format!("fetch_{}", array.name());
        array.fetched(name, vector_width)
    }

    /// Binds packed float weights for reading, `vector_width` elements at a time.
    pub(crate) fn packed(&mut self, weights: Arc<[f32]>, vector_width: usize) -> Array {
        let array = self.bind(Binding::Packed(Packed::new(weights)), self.storages.packed(), vector_width);
        self.functions.push_str(&array.reader());
        array
    }

    /// Binds a value of the program for writing, `vector_width` elements at a time.
    pub(crate) fn write(&mut self, id: ValueId, vector_width: usize) -> Array {
        let storage = self.storages.written(id, vector_width);
        let mut array = self.bind(Binding::Write(id, storage), storage, vector_width);
        if self.storages.saturates(id) && matches!(storage, StorageFormat::Half | StorageFormat::HalfPairs) {
            self.function(&saturated(vector_width));
            array = array.saturating();
        }
        self.functions.push_str(&array.writer());
        array
    }

    /// Binds a value for writing one element at a time, where unit `g` of [`Writer::linear`] writes element
    /// `g` and no other. Bytes are then collected into words.
    pub(crate) fn write_own(&mut self, id: ValueId) -> Array {
        let StorageFormat::Bytes(_) = self.storages.of(id) else { return self.write(id, 1) };
        let storage = self.storages.of(id);
        let array = self.bind(Binding::Write(id, storage), storage, 1);
        self.functions.push_str(&array.writer());
        self.collected = Some(array.clone());
        array
    }

    /// Enables the WGSL extensions for f16 and, unless they are emulated, for cooperative matrices.
    pub(crate) fn use_matrices(&mut self, matrices: Matrices) {
        (self.halves, self.matrices) = (true, matrices == Matrices::Cooperative);
    }

    /// Binds packed 32-bit words for reading, `vector_width` words at a time. Returns the array's name.
    pub(crate) fn words(&mut self, words: Arc<[u32]>, vector_width: usize) -> String {
        self.bindings.push((Binding::Words(Packed::new(words)), vector("u32", vector_width)));
        format!("b{}", self.bindings.len())
    }

    fn bind(&mut self, binding: Binding, storage: StorageFormat, vector_width: usize) -> Array {
        self.halves |= storage == StorageFormat::Half;
        self.bindings.push((binding, storage.element_type(vector_width)));
        Array::new(format!("b{}", self.bindings.len()), storage, vector_width)
    }

    /// Returns `text`, the source of a function, or an empty string if the function was added before.
    pub(crate) fn once(&self, text: &str) -> String {
        if self.functions.contains(text) { String::new() } else { text.to_owned() }
    }

    /// Adds the WGSL function `text` to the shader, unless it was added before.
    pub(crate) fn function(&mut self, text: &str) {
        if !self.functions.contains(text) {
            self.functions.push_str(text);
        }
    }

    /// Builds the shader in which each invocation runs `body` for one of `count` units, numbered `g`.
    pub(crate) fn linear(mut self, count: usize, body: &str) -> Shader {
        if let Some(array) = self.collected.take() {
            return self.collecting(count, body, &array);
        }
        let groups = u32::try_from(count.div_ceil(GROUP as usize)).expect("units of checked values fit 32 bits");
        let across = groups.clamp(1, MAX_GROUPS);
        let row = self.param((across * GROUP) as usize);
        let units = self.param(count);
        let body = format!("    let g = id.x + id.y * {row};\n    if (g >= {units}) {{ return; }}\n{body}");
        self.finish([GROUP, 1, 1], [across, groups.div_ceil(across), 1], "", &body)
    }

    /// Builds the shader in which each invocation runs `body` for four of `count` units in sequence, and
    /// writes their bytes as one word.
    fn collecting(mut self, count: usize, body: &str, array: &Array) -> Shader {
        let units = self.param(count);
        self.function(&format!("fn unit(g: u32) {{\n{body}}}\n"));
        let put = format!("{} = word;", array.word("g"));
        let body = format!(
            "    for (var unit_at = 4u * g; unit_at < min(4u * g + 4u, {units}); unit_at++) {{ unit(unit_at); }}\n    {put}\n"
        );
        self.linear(count.div_ceil(4), &body)
    }

    /// Builds the shader with this work-group size, these numbers of work groups, module-scope declarations
    /// and body of the main function.
    pub(crate) fn finish(self, group: [u32; 3], groups: [u32; 3], declarations: &str, body: &str) -> Shader {
        let mut source = String::new();
        if self.halves {
            source.push_str("enable f16;\n");
        }
        if self.matrices {
            source.push_str("enable wgpu_cooperative_matrix;\n");
        }
        if let (Some(space), vectors @ 1..) = (self.space, self.params.len().div_ceil(4)) {
            let _ = writeln!(source, "@group(0) @binding(0) var<{space}> params: array<vec4<u32>, {vectors}>;");
        }
        for (index, (binding, element)) in self.bindings.iter().enumerate() {
            let access = if matches!(binding, Binding::Write(..)) { "read_write" } else { "read" };
            let index = index + 1;
            let _ = writeln!(source, "@group(0) @binding({index}) var<storage, {access}> b{index}: array<{element}>;");
        }
        let [x, y, z] = group;
        let _ = write!(
            source,
            "{declarations}{}@compute @workgroup_size({x}, {y}, {z})\nfn main(@builtin(global_invocation_id) id: vec3<u32>, \
             @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{\n{body}}}\n",
            self.functions
        );
        let bindings = self.bindings.into_iter().map(|(binding, _)| binding).collect();
        Shader { variant: self.variant, source, bindings, params: self.params, groups }
    }
}
