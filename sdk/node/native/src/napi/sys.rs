//! Node-API (<https://nodejs.org/api/n-api.html>), declared by hand, behind a safe interface.
//!
//! Its binary interface is stable; version 5 suffices. A [`Call`] lives as long as the JavaScript call that it represents,
//! and so do the values it creates.

#![allow(unsafe_code, reason = "Node-API is a C interface")]

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int, c_void},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{null, null_mut},
    rc::Rc,
    sync::atomic::{AtomicPtr, Ordering},
};

use forebay_store::facade::operations::{self, Call as _, Refused};

use crate::Thread;

type Env = *mut c_void;
type RawValue = *mut c_void;
type RawReference = *mut c_void;
type CallbackInfo = *mut c_void;
type Callback = unsafe extern "C" fn(Env, CallbackInfo) -> RawValue;
/// `napi_status`; 0 is `napi_ok`.
type Status = c_int;
/// `napi_generic_failure`, the status of a function that the runtime does not have.
const GENERIC_FAILURE: Status = 9;
/// `napi_valuetype` of `undefined`.
const UNDEFINED: c_int = 0;

/// Declares functions of Node-API. They are looked up when they are first called, so that programs without Node-API can load this library,
/// too.
macro_rules! node_api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> Status;)*) => {$(
        /// # Safety
        /// As Node-API says.
        unsafe fn $name($($argument: $type),*) -> Status {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            let mut found = FOUND.load(Ordering::Relaxed);
            if found.is_null() {
                // SAFETY: the name is a C string.
                found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, concat!(stringify!($name), "\0").as_ptr().cast()) };
                FOUND.store(found, Ordering::Relaxed);
            }
            if found.is_null() {
                return GENERIC_FAILURE;
            }
            // SAFETY: the runtime's function of that name has this type; the caller vouches for the arguments.
            unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> Status>(found)($($argument),*)
            }
        }
    )*};
}

node_api! {
    fn napi_create_function(
        env: Env,
        name: *const c_char,
        name_bytes: usize,
        callback: Callback,
        data: *mut c_void,
        result: *mut RawValue,
    ) -> Status;
    fn napi_set_named_property(env: Env, object: RawValue, name: *const c_char, value: RawValue) -> Status;
    fn napi_get_cb_info(
        env: Env,
        info: CallbackInfo,
        count: *mut usize,
        arguments: *mut RawValue,
        this: *mut RawValue,
        data: *mut *mut c_void,
    ) -> Status;
    fn napi_get_value_int32(env: Env, value: RawValue, result: *mut i32) -> Status;
    fn napi_get_value_double(env: Env, value: RawValue, result: *mut f64) -> Status;
    fn napi_get_value_string_utf8(
        env: Env,
        value: RawValue,
        place: *mut c_char,
        place_bytes: usize,
        result: *mut usize,
    ) -> Status;
    fn napi_typeof(env: Env, value: RawValue, result: *mut c_int) -> Status;
    fn napi_create_external_arraybuffer(
        env: Env,
        data: *mut c_void,
        bytes: usize,
        finalize: Option<unsafe extern "C" fn(Env, *mut c_void, *mut c_void)>,
        hint: *mut c_void,
        result: *mut RawValue,
    ) -> Status;
    fn napi_create_object(env: Env, result: *mut RawValue) -> Status;
    fn napi_create_array_with_length(env: Env, length: usize, result: *mut RawValue) -> Status;
    fn napi_set_element(env: Env, array: RawValue, index: u32, value: RawValue) -> Status;
    fn napi_create_string_utf8(env: Env, text: *const c_char, bytes: usize, result: *mut RawValue) -> Status;
    fn napi_create_string_latin1(
        env: Env,
        text: *const c_char,
        bytes: usize,
        result: *mut RawValue,
    ) -> Status;
    fn napi_create_int32(env: Env, value: i32, result: *mut RawValue) -> Status;
    fn napi_create_double(env: Env, value: f64, result: *mut RawValue) -> Status;
    fn napi_get_boolean(env: Env, value: bool, result: *mut RawValue) -> Status;
    fn napi_get_null(env: Env, result: *mut RawValue) -> Status;
    fn napi_create_reference(
        env: Env,
        value: RawValue,
        initial_count: u32,
        result: *mut RawReference,
    ) -> Status;
    fn napi_get_reference_value(env: Env, reference: RawReference, result: *mut RawValue) -> Status;
    fn napi_new_instance(
        env: Env,
        class: RawValue,
        count: usize,
        arguments: *const RawValue,
        result: *mut RawValue,
    ) -> Status;
    fn napi_add_finalizer(
        env: Env,
        object: RawValue,
        data: *mut c_void,
        finalize: unsafe extern "C" fn(Env, *mut c_void, *mut c_void),
        hint: *mut c_void,
        result: *mut RawReference,
    ) -> Status;
    fn napi_throw(env: Env, error: RawValue) -> Status;
    fn napi_throw_error(env: Env, code: *const c_char, message: *const c_char) -> Status;
    fn napi_add_env_cleanup_hook(
        env: Env,
        hook: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> Status;
}

/// Maximum number of arguments of a call.
const ARGUMENTS_MAX: usize = 11;
/// Maximum number of arguments of nearly all calls; fetching each one takes time.
const ARGUMENTS_FEW: usize = 3;
/// Size in bytes of the memory through which JavaScript passes paths and values.
const AREA_BYTES: usize = 65_536;

/// Memory that JavaScript sees as an `ArrayBuffer`. It is never freed, so it outlives every thread that uses it.
#[derive(Clone, Copy, Debug)]
struct Area(*mut u8);

/// A JavaScript value, valid for the call in which it was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'c> {
    raw: RawValue,
    call: PhantomData<&'c ()>,
}

/// An exception to be thrown by a call: an error of a class if it has a code, otherwise a plain `Error`.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Option<&'static str>,
    pub(crate) message: String,
    /// The class, if it is not the one set for the function.
    pub(crate) class: Option<Class>,
}

impl Failure {
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            class: None,
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self {
            code: Some(refused.code),
            message: refused.message,
            class: None,
        }
    }
}

/// The result of a call: a value, or `None` for `undefined`.
pub(crate) type Outcome<'c> = Result<Option<Value<'c>>, Failure>;

/// A function of the addon: its name, its number of arguments, and its body, which gets the state `T` that the function belongs to.
pub(crate) type Export<T> = (
    &'static CStr,
    usize,
    for<'c> fn(&'c Call<'c>, &mut T) -> Outcome<'c>,
);

/// A persistent reference to a JavaScript class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class(RawReference);

/// A function with its state. There is one for each JavaScript function, freed once that function is unreachable.
struct Bound<T, F> {
    function: F,
    state: Rc<RefCell<T>>,
    area: Area,
    errors: Option<Class>,
}

/// A running call of a function of the addon.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    env: Env,
    arguments: &'c [RawValue],
    area: Area,
}

/// Called once by the runtime in each of its threads that loads the addon.
///
/// # Safety
/// The runtime passes a live environment and the module's exports object.
#[unsafe(no_mangle)]
unsafe extern "C" fn napi_register_module_v1(env: Env, exports: RawValue) -> RawValue {
    let memory: &'static mut [u8] = Box::leak(vec![0; AREA_BYTES].into_boxed_slice());
    let call = Call {
        env,
        arguments: &[],
        area: Area(memory.as_mut_ptr()),
    };
    let thread = Rc::new(RefCell::new(Thread::default()));
    let registered = call.area_buffer().and_then(|area| {
        let exports = Value::of(exports);
        call.set(exports, c"area", area)?;
        call.functions(exports, crate::FUNCTIONS.iter().copied(), &thread, None)?;
        call.at_end(move || thread.borrow_mut().end())
    });
    if let Err(failure) = registered {
        call.throw(None, &failure);
    }
    exports
}

/// Runs a function of the addon, and prevents panics from unwinding into the runtime.
///
/// # Safety
/// The runtime passes a live environment and the call's data, and `data` is the `Bound<T, F>` that the function was made with.
unsafe extern "C" fn run<T, F, const ARGUMENTS: usize>(env: Env, info: CallbackInfo) -> RawValue
where
    F: for<'c> Fn(&'c Call<'c>, &mut T) -> Outcome<'c>,
{
    let mut arguments = [null_mut(); ARGUMENTS];
    let mut count = ARGUMENTS;
    let mut data = null_mut();
    // SAFETY: `env` and `info` are live, the places are as large as said; missing arguments are filled in as `undefined`.
    let status = unsafe {
        napi_get_cb_info(
            env,
            info,
            &raw mut count,
            arguments.as_mut_ptr(),
            null_mut(),
            &raw mut data,
        )
    };
    if status != 0 {
        return null_mut();
    }
    // SAFETY: functions are made with a `Bound<T, F>` as their data that lasts as long as they do, see `functions`.
    let bound = unsafe { &*data.cast::<Bound<T, F>>() };
    let call = Call {
        env,
        arguments: &arguments,
        area: bound.area,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        (bound.function)(&call, &mut bound.state.borrow_mut())
    }));
    let failure = match outcome {
        Ok(Ok(value)) => return value.map_or(null_mut(), |value| value.raw),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::plain("a defect in the forebay addon: the operation was given up"),
    };
    call.throw(bound.errors, &failure);
    null_mut()
}

/// Frees the data of a function once the function is unreachable.
///
/// # Safety
/// `data` is the `Bound<T, F>` that `functions` made for the one function that the runtime has found unreachable.
unsafe extern "C" fn release<T, F>(_: Env, data: *mut c_void, _: *mut c_void) {
    // SAFETY: `functions` made the box and gave it away; the runtime calls this once, and the function never again.
    let bound = unsafe { Box::from_raw(data.cast::<Bound<T, F>>()) };
    // Dropping the state may panic, which must not unwind into the runtime.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(bound)));
}

/// Runs the action registered for the end of a thread of the runtime.
///
/// # Safety
/// `argument` is the `Box` that `at_end` made.
unsafe extern "C" fn end(argument: *mut c_void) {
    // SAFETY: `at_end` made the box and gave it away; the runtime calls this once.
    let action = unsafe { Box::from_raw(argument.cast::<Box<dyn FnOnce()>>()) };
    action();
}

impl Value<'_> {
    fn of(raw: RawValue) -> Self {
        Self {
            raw,
            call: PhantomData,
        }
    }
}

impl<'c> Call<'c> {
    /// Adds functions that share a state as members of an object.
    pub(crate) fn functions<T, F>(
        &self,
        object: Value<'_>,
        functions: impl Iterator<Item = (&'static CStr, usize, F)>,
        state: &Rc<RefCell<T>>,
        errors: Option<Class>,
    ) -> Result<(), Failure>
    where
        F: for<'a> Fn(&'a Call<'a>, &mut T) -> Outcome<'a>,
    {
        for (name, arity, function) in functions {
            let callback: Callback = if arity <= ARGUMENTS_FEW {
                run::<T, F, ARGUMENTS_FEW>
            } else {
                run::<T, F, ARGUMENTS_MAX>
            };
            let data = Box::into_raw(Box::new(Bound {
                function,
                state: Rc::clone(state),
                area: self.area,
                errors,
            }))
            .cast();
            let made = made(|result| {
                // SAFETY: the environment is live, the name is a C string, and the data lasts as long as the function: `release` frees
                // it, and if the runtime refuses the function or the finalizer, it is never freed.
                unsafe {
                    napi_create_function(
                        self.env,
                        name.as_ptr(),
                        name.to_bytes().len(),
                        callback,
                        data,
                        result,
                    )
                }
            })?;
            // SAFETY: environment and function are live, and `release` knows what the data is.
            check(unsafe {
                napi_add_finalizer(self.env, made.raw, data, release::<T, F>, null_mut(), null_mut())
            })?;
            self.set(object, name, made)?;
        }
        Ok(())
    }

    /// Runs an action when this thread of the runtime ends.
    pub(crate) fn at_end(&self, action: impl FnOnce() + 'static) -> Result<(), Failure> {
        let action: Box<dyn FnOnce()> = Box::new(action);
        let argument = Box::into_raw(Box::new(action)).cast();
        // SAFETY: the environment is live, and `end` knows what the argument is.
        check(unsafe { napi_add_env_cleanup_hook(self.env, end, argument) })
    }

    /// Makes a persistent reference to a class passed as an argument.
    pub(crate) fn class(&self, index: usize) -> Result<Class, Failure> {
        let mut reference = null_mut();
        // SAFETY: as in `integer`.
        check(unsafe { napi_create_reference(self.env, self.arguments[index], 1, &raw mut reference) })?;
        Ok(Class(reference))
    }

    pub(crate) fn object(&self) -> Result<Value<'c>, Failure> {
        // SAFETY: the environment is live, and so is the place for the answer.
        made(|result| unsafe { napi_create_object(self.env, result) })
    }

    pub(crate) fn set(&self, object: Value<'_>, name: &CStr, value: Value<'_>) -> Result<(), Failure> {
        // SAFETY: the environment and both values are live, the name is a C string.
        check(unsafe { napi_set_named_property(self.env, object.raw, name.as_ptr(), value.raw) })
    }

    /// Wraps memory in an `ArrayBuffer`.
    ///
    /// # Safety
    /// The memory must stay in place until the process ends.
    pub(crate) unsafe fn buffer(&self, memory: *mut c_void, bytes: usize) -> Result<Value<'c>, Failure> {
        made(|result| {
            // SAFETY: the environment is live; the caller vouches for the memory.
            unsafe { napi_create_external_arraybuffer(self.env, memory, bytes, None, null_mut(), result) }
        })
    }

    fn area_buffer(&self) -> Result<Value<'c>, Failure> {
        // SAFETY: the area lasts as long as the process.
        unsafe { self.buffer(self.area.0.cast(), AREA_BYTES) }
    }

    /// Throws an error in JavaScript when the running function returns.
    fn throw(&self, class: Option<Class>, failure: &Failure) {
        if let (Some(class), Some(code)) = (failure.class.or(class), failure.code)
            && let Ok(error) = self.instance(class, &[code, &failure.message])
        {
            // SAFETY: environment and error are live.
            unsafe { napi_throw(self.env, error.raw) };
            return;
        }
        let message = CString::new(failure.message.as_str()).unwrap_or_default();
        // SAFETY: the environment is live and the message a C string.
        unsafe { napi_throw_error(self.env, null(), message.as_ptr()) };
    }

    fn instance(&self, class: Class, texts: &[&str]) -> Result<Value<'c>, Failure> {
        let texts: Vec<Value<'_>> = texts
            .iter()
            .map(|text| self.string(text))
            .collect::<Result<_, _>>()?;
        let arguments: Vec<RawValue> = texts.iter().map(|text| text.raw).collect();
        // SAFETY: environment and reference are live, and so is the place for the answer.
        let class = made(|result| unsafe { napi_get_reference_value(self.env, class.0, result) })?;
        // SAFETY: environment, class and arguments are live.
        made(|result| unsafe {
            napi_new_instance(self.env, class.raw, arguments.len(), arguments.as_ptr(), result)
        })
    }
}

impl<'c> operations::Call for Call<'c> {
    type Value = Value<'c>;
    type Error = Failure;

    fn integer(&self, index: usize) -> Result<i32, Failure> {
        let mut number = 0;
        // SAFETY: environment and argument are live, and so is the place for the answer.
        check(unsafe { napi_get_value_int32(self.env, self.arguments[index], &raw mut number) })?;
        Ok(number)
    }

    fn number(&self, index: usize) -> Result<f64, Failure> {
        let mut number = 0.0;
        // SAFETY: as in `integer`.
        check(unsafe { napi_get_value_double(self.env, self.arguments[index], &raw mut number) })?;
        Ok(number)
    }

    fn text(&self, index: usize) -> Result<Option<Vec<u8>>, Failure> {
        let mut kind = 0;
        let argument = self.arguments[index];
        // SAFETY: as in `integer`.
        check(unsafe { napi_typeof(self.env, argument, &raw mut kind) })?;
        if kind == UNDEFINED {
            return Ok(None);
        }
        let mut bytes = 0;
        // SAFETY: as in `integer`; without a place the length is told.
        check(unsafe { napi_get_value_string_utf8(self.env, argument, null_mut(), 0, &raw mut bytes) })?;
        // The function writes a NUL at the end.
        let mut text = vec![0; bytes + 1];
        // SAFETY: the place is as large as said.
        check(unsafe {
            napi_get_value_string_utf8(
                self.env,
                argument,
                text.as_mut_ptr().cast(),
                text.len(),
                &raw mut bytes,
            )
        })?;
        text.truncate(bytes);
        Ok(Some(text))
    }

    fn bytes(&self, from: i32, to: i32) -> Result<&[u8], Failure> {
        // SAFETY: the area is that large and lasts; JavaScript, which alone writes to it, waits for this call.
        let area = unsafe { std::slice::from_raw_parts(self.area.0, AREA_BYTES) };
        let place = |at: i32| usize::try_from(at).ok();
        place(from)
            .zip(place(to))
            .and_then(|(from, to)| area.get(from..to))
            .ok_or_else(|| Failure::plain("the arguments lie outside of the shared memory"))
    }

    fn mark(&self, kind: u8) {
        // SAFETY: the area is there, and no slice of it that is still in use covers its first byte.
        unsafe { self.area.0.write(kind) };
    }

    fn array(&self, values: &[Value<'c>]) -> Result<Value<'c>, Failure> {
        // SAFETY: the environment is live, and so is the place for the answer.
        let array = made(|result| unsafe { napi_create_array_with_length(self.env, values.len(), result) })?;
        for (index, value) in (0..).zip(values) {
            // SAFETY: the environment and both values are live.
            check(unsafe { napi_set_element(self.env, array.raw, index, value.raw) })?;
        }
        Ok(array)
    }

    fn string(&self, text: &str) -> Result<Value<'c>, Failure> {
        let (start, bytes) = (text.as_ptr().cast(), text.len());
        // SAFETY: the environment is live, and the text is as long as said; ASCII is Latin-1 as well, and quicker to take.
        made(|result| unsafe {
            if text.is_ascii() {
                napi_create_string_latin1(self.env, start, bytes, result)
            } else {
                napi_create_string_utf8(self.env, start, bytes, result)
            }
        })
    }

    fn latin1(&self, bytes: &[u8]) -> Result<Value<'c>, Failure> {
        // SAFETY: as in `string`; every byte is a character of Latin-1.
        made(|result| unsafe {
            napi_create_string_latin1(self.env, bytes.as_ptr().cast(), bytes.len(), result)
        })
    }

    fn int(&self, number: i32) -> Result<Value<'c>, Failure> {
        // SAFETY: the environment is live, and so is the place for the answer.
        made(|result| unsafe { napi_create_int32(self.env, number, result) })
    }

    fn double(&self, number: f64) -> Result<Value<'c>, Failure> {
        // SAFETY: as in `int`.
        made(|result| unsafe { napi_create_double(self.env, number, result) })
    }

    fn boolean(&self, value: bool) -> Result<Value<'c>, Failure> {
        // SAFETY: as in `int`.
        made(|result| unsafe { napi_get_boolean(self.env, value, result) })
    }

    fn null(&self) -> Result<Value<'c>, Failure> {
        // SAFETY: as in `int`.
        made(|result| unsafe { napi_get_null(self.env, result) })
    }
}

fn made<'c>(make: impl FnOnce(*mut RawValue) -> Status) -> Result<Value<'c>, Failure> {
    let mut value = null_mut();
    check(make(&raw mut value))?;
    Ok(Value::of(value))
}

fn check(status: Status) -> Result<(), Failure> {
    if status == 0 {
        return Ok(());
    }
    Err(Failure::plain(format!(
        "the forebay addon was called wrongly (Node-API status {status})"
    )))
}
