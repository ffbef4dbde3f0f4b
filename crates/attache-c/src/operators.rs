#![allow(unsafe_code)]
//! Operators of the program's: registered one by one, or found by functions of the program's.

use std::ffi::{c_char, c_int, c_void};
use std::ops::RangeInclusive;
use std::sync::Arc;

use attache::model::OperatorCode;
use attache::{Model, OpResolver};
use attache_abi::report::{text_from_c, text_of_c};
use attache_abi::{
    TfLiteBuiltinOperator, TfLiteOperator, TfLiteRegistration, TfLiteRegistrationV1, TfLiteRegistrationV2,
    TfLiteRegistrationV3,
};
use attache_external::opaque::operator::{
    TfLiteOperatorGetBuiltInCode, TfLiteOperatorGetCustomName, TfLiteOperatorGetVersion,
};
use attache_external::{add_operator, add_registration};

use crate::fault::Fault;
use crate::guard::exports;
use crate::options::{Configuration, TfLiteInterpreterOptions, change};

/// Functions that find the operator of a builtin code, or of a custom name, in a version; null where there is none.
struct Finders<T> {
    builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const T>,
    custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const T>,
    user_data: *mut c_void,
}

// SAFETY: the program states with the functions that they may be called with its data by the threads that use the options.
unsafe impl<T> Send for Finders<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Finders<T> {}

/// What an operator that the program added stands for.
#[derive(Clone)]
pub(crate) struct Added {
    code: TfLiteBuiltinOperator,
    /// The name of a custom operator.
    name: Option<String>,
    versions: RangeInclusive<i32>,
}

/// The code of an operator of a model, as C code names it.
struct Wanted<'a> {
    code: TfLiteBuiltinOperator,
    name: Option<&'a str>,
    version: c_int,
}

/// Registers the operator that is wanted, if the program has it. Returns whether it has.
type Find = dyn Fn(&Wanted<'_>, &mut OpResolver) -> Result<bool, Fault> + Send + Sync;

/// Where operators of a model come from before the library's own.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<Find>);

impl<'a> Wanted<'a> {
    fn new(code: &'a OperatorCode) -> Self {
        Self { code: TfLiteBuiltinOperator(code.builtin.0), name: code.custom.as_deref(), version: code.version }
    }
}

/// Checks that the program added each builtin operator of a model, in the version that the model has.
pub(crate) fn check_selected(configuration: &Configuration, model: &Model) -> Result<(), Fault> {
    let operators = model.subgraphs().iter().flat_map(|subgraph| &subgraph.operators);
    for code in operators.map(|operator| &operator.code).filter(|code| code.custom.is_none()) {
        let wanted = Wanted::new(code);
        if !has_added(configuration, &wanted)? {
            // The words of TensorFlow Lite, which programs know.
            let (name, version) = (code.name(), code.version);
            let text = format!("Didn't find op for builtin opcode '{name}' version '{version}'. The options lack it.");
            return Err(Fault::new(text));
        }
    }
    Ok(())
}

/// Returns the names of the custom operators of a model that the program did not add.
pub(crate) fn unresolved<'a>(configuration: &Configuration, model: &'a Model) -> Vec<&'a str> {
    let operators = model.subgraphs().iter().flat_map(|subgraph| &subgraph.operators);
    let others = operators.filter(|operator| {
        operator.code.custom.is_some() && !has_added(configuration, &Wanted::new(&operator.code)).unwrap_or(false)
    });
    others.filter_map(|operator| operator.code.custom.as_deref()).collect()
}

/// Whether the program added an operator, one by one or with functions that find it.
fn has_added(configuration: &Configuration, wanted: &Wanted<'_>) -> Result<bool, Fault> {
    let is_wanted = |added: &Added| {
        added.code == wanted.code && added.name.as_deref() == wanted.name && added.versions.contains(&wanted.version)
    };
    if configuration.added.iter().any(is_wanted) {
        return Ok(true);
    }
    let resolver = configuration.resolver.as_ref();
    resolver.map_or(Ok(false), |resolver| (resolver.0)(wanted, &mut OpResolver::new()))
}

impl Resolver {
    /// Registers the operators of a model that the program has.
    pub(crate) fn resolve(&self, model: &Model, into: &mut OpResolver) -> Result<(), Fault> {
        let operators = model.subgraphs().iter().flat_map(|subgraph| &subgraph.operators);
        let mut seen = std::collections::HashSet::new();
        for operator in operators {
            let code = &operator.code;
            if seen.insert((code.builtin, code.custom.clone(), code.version)) {
                (self.0)(&Wanted::new(code), into)?;
            }
        }
        Ok(())
    }

    /// Asks `self`, and then `next` for what it does not have.
    fn or(self, next: Self) -> Self {
        Self(Arc::new(move |wanted, into| Ok((self.0)(wanted, into)? || (next.0)(wanted, into)?)))
    }
}

impl<T> Finders<T> {
    fn find(&self, wanted: &Wanted<'_>) -> *const T {
        match (wanted.name, self.builtin, self.custom) {
            (Some(name), _, Some(custom)) => {
                let name = text_of_c(name);
                // SAFETY: the program gave the function, with its data, to find operators by their names.
                unsafe { custom(self.user_data, name.as_ptr(), wanted.version) }
            }
            // SAFETY: as above, by their codes.
            (None, Some(builtin), _) => unsafe { builtin(self.user_data, wanted.code.0, wanted.version) },
            _ => std::ptr::null(),
        }
    }
}

/// A form of registration that the newest one can be made from.
trait Form: 'static {
    fn newest(&self) -> TfLiteRegistration;
}

/// Implements [`Form`] by the fields that a form has.
macro_rules! form {
    ($name:ty { $($field:ident),* }) => {
        impl Form for $name {
            fn newest(&self) -> TfLiteRegistration {
                TfLiteRegistration {
                    init: self.init,
                    free: self.free,
                    prepare: self.prepare,
                    invoke: self.invoke,
                    profiling_string: self.profiling_string,
                    builtin_code: self.builtin_code,
                    custom_name: self.custom_name,
                    version: self.version,
                    $($field: self.$field,)*
                    ..TfLiteRegistration::empty()
                }
            }
        }
    };
}

form!(TfLiteRegistrationV1 {});
form!(TfLiteRegistrationV2 { registration_external });
form!(TfLiteRegistrationV3 { registration_external, async_kernel });

impl Form for TfLiteRegistration {
    fn newest(&self) -> TfLiteRegistration {
        *self
    }
}

fn of_registrations<T: Form>(finders: Finders<T>) -> Resolver {
    Resolver(Arc::new(move |wanted, into| {
        // SAFETY: the program returns null, or a registration that stays valid.
        let Some(found) = (unsafe { finders.find(wanted).as_ref() }) else { return Ok(false) };
        let versions = wanted.version..=wanted.version;
        // SAFETY: the program states that the functions are of the types that they have, and stay valid.
        unsafe { add_registration(into, wanted.code, wanted.name, versions, &found.newest()) };
        Ok(true)
    }))
}

fn of_operators(finders: Finders<TfLiteOperator>) -> Resolver {
    Resolver(Arc::new(move |wanted, into| {
        let found = finders.find(wanted);
        if found.is_null() {
            return Ok(false);
        }
        // SAFETY: the program returns an operator that this library made and that stays valid.
        unsafe { add_operator(into, found.cast_mut()) }.map_err(|error| Fault::new(error.to_string()))?;
        Ok(true)
    }))
}

fn set(options: *mut TfLiteInterpreterOptions, resolver: Resolver) {
    change(options, |options| {
        options.configuration.resolver = Some(resolver);
        Ok(())
    });
}

/// Registers an operator for versions of a builtin code, or of a custom name.
fn register(
    options: *mut TfLiteInterpreterOptions,
    (code, name): (TfLiteBuiltinOperator, Option<&str>),
    registration: *const TfLiteRegistration,
    (least, most): (i32, i32),
) {
    change(options, |options| {
        // SAFETY: the caller of the C function passes null or a valid registration.
        let registration = unsafe { registration.as_ref() };
        let registration = registration.ok_or_else(|| Fault::new("null where a TfLiteRegistration is expected"))?;
        // SAFETY: the program states that the functions are of the types that they have, and stay valid.
        unsafe { add_registration(&mut options.configuration.operators, code, name, least..=most, registration) };
        let name = name.map(str::to_owned);
        options.configuration.added.push(Added { code, name, versions: least..=most });
        Ok(())
    });
}

exports! {
    /// Adds an operator in place of a builtin one.
    fn TfLiteInterpreterOptionsAddBuiltinOp(
        options: *mut TfLiteInterpreterOptions,
        code: TfLiteBuiltinOperator,
        registration: *const TfLiteRegistration,
        least: i32,
        most: i32,
    ) {
        register(options, (code, None), registration, (least, most));
    } else ();

    /// Adds a custom operator.
    fn TfLiteInterpreterOptionsAddCustomOp(
        options: *mut TfLiteInterpreterOptions,
        name: *const c_char,
        registration: *const TfLiteRegistration,
        least: i32,
        most: i32,
    ) {
        // SAFETY: the caller of the C function passes null or a text that a zero byte ends.
        match unsafe { text_from_c(name) } {
            Some(name) => register(options, (TfLiteBuiltinOperator::CUSTOM, Some(name)), registration, (least, most)),
            None => drop(change(options, |_| Err(Fault::new("null, or bytes that are not UTF-8, for an operator's name")))),
        }
    } else ();

    /// Adds an operator that was made with `TfLiteOperatorCreate`.
    fn TfLiteInterpreterOptionsAddOperator(options: *mut TfLiteInterpreterOptions, operator: *mut TfLiteOperator) {
        change(options, |options| {
            // SAFETY: the program passes null, or an operator of this library that stays valid.
            let added = unsafe { add_operator(&mut options.configuration.operators, operator) };
            added.map_err(|error| Fault::new(error.to_string()))?;
            // SAFETY: as above; it is not null, and its name is a text.
            let added = unsafe {
                let (code, version) = (TfLiteOperatorGetBuiltInCode(operator), TfLiteOperatorGetVersion(operator));
                let name = text_from_c(TfLiteOperatorGetCustomName(operator));
                let name = name.filter(|_| code == TfLiteBuiltinOperator::CUSTOM).map(str::to_owned);
                Added { code, name, versions: version..=version }
            };
            options.configuration.added.push(added);
            Ok(())
        });
    } else ();

    /// Sets functions that find operators.
    fn TfLiteInterpreterOptionsSetOpResolver(
        options: *mut TfLiteInterpreterOptions,
        builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteRegistration>,
        custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteRegistration>,
        user_data: *mut c_void,
    ) {
        set(options, of_registrations(Finders { builtin, custom, user_data }));
    } else ();

    /// Sets functions that find operators in an older form.
    fn TfLiteInterpreterOptionsSetOpResolverV3(
        options: *mut TfLiteInterpreterOptions,
        builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteRegistrationV3>,
        custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteRegistrationV3>,
        user_data: *mut c_void,
    ) {
        set(options, of_registrations(Finders { builtin, custom, user_data }));
    } else ();

    /// Sets functions that find operators in an older form.
    fn TfLiteInterpreterOptionsSetOpResolverV2(
        options: *mut TfLiteInterpreterOptions,
        builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteRegistrationV2>,
        custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteRegistrationV2>,
        user_data: *mut c_void,
    ) {
        set(options, of_registrations(Finders { builtin, custom, user_data }));
    } else ();

    /// Sets functions that find operators in the oldest form.
    fn TfLiteInterpreterOptionsSetOpResolverV1(
        options: *mut TfLiteInterpreterOptions,
        builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteRegistrationV1>,
        custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteRegistrationV1>,
        user_data: *mut c_void,
    ) {
        set(options, of_registrations(Finders { builtin, custom, user_data }));
    } else ();

    /// Sets functions that find operators made with `TfLiteOperatorCreate`.
    fn TfLiteInterpreterOptionsSetOpResolverExternal(
        options: *mut TfLiteInterpreterOptions,
        builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteOperator>,
        custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteOperator>,
        user_data: *mut c_void,
    ) {
        set(options, of_operators(Finders { builtin, custom, user_data }));
    } else ();

    /// Sets functions that find operators made with `TfLiteOperatorCreate`, and others for what these do not find.
    fn TfLiteInterpreterOptionsSetOpResolverExternalWithFallback(
        options: *mut TfLiteInterpreterOptions,
        builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteOperator>,
        custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteOperator>,
        next_builtin: Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *const TfLiteRegistration>,
        next_custom: Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> *const TfLiteRegistration>,
        user_data: *mut c_void,
    ) {
        let next = Finders { builtin: next_builtin, custom: next_custom, user_data };
        set(options, of_operators(Finders { builtin, custom, user_data }).or(of_registrations(next)));
    } else ();
}
