//! All of the addon: Node-API declarations, the module's registration, and the two functions.

#![allow(unsafe_code, reason = "Node-API and mmap are C interfaces")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// Size of the shared page in bytes: header, claim words, outbox.
const PAGE_BYTES: usize = 4_096 + 16_384 + 262_144;

type Env = *mut c_void;
type Value = *mut c_void;
type CallbackInfo = *mut c_void;
type Callback = unsafe extern "C" fn(Env, CallbackInfo) -> Value;
/// `napi_status`; 0 is `napi_ok`.
type Status = c_int;

unsafe extern "C" {
    fn napi_create_function(
        env: Env,
        name: *const c_char,
        name_bytes: usize,
        callback: Callback,
        data: *mut c_void,
        result: *mut Value,
    ) -> Status;
    fn napi_set_named_property(env: Env, object: Value, name: *const c_char, value: Value) -> Status;
    fn napi_get_cb_info(
        env: Env,
        info: CallbackInfo,
        count: *mut usize,
        arguments: *mut Value,
        this: *mut Value,
        data: *mut *mut c_void,
    ) -> Status;
    fn napi_get_value_int32(env: Env, value: Value, result: *mut i32) -> Status;
    fn napi_create_external_arraybuffer(
        env: Env,
        data: *mut c_void,
        bytes: usize,
        finalize: Option<unsafe extern "C" fn(Env, *mut c_void, *mut c_void)>,
        hint: *mut c_void,
        result: *mut Value,
    ) -> Status;
    fn napi_throw_error(env: Env, code: *const c_char, message: *const c_char) -> Status;
}

/// Called once by the runtime when it loads the addon.
///
/// # Safety
/// The runtime passes a live environment and the module's exports object.
#[unsafe(no_mangle)]
unsafe extern "C" fn napi_register_module_v1(env: Env, exports: Value) -> Value {
    let functions: [(&CStr, Callback); 2] = [(c"mapPage", map_page), (c"ring", ring)];
    for (name, callback) in functions {
        let mut function = null_mut();
        // SAFETY: `env` and `exports` are live for this call (the runtime's contract); `name` is a C string.
        let status = unsafe {
            match napi_create_function(
                env,
                name.as_ptr(),
                name.to_bytes().len(),
                callback,
                null_mut(),
                &raw mut function,
            ) {
                0 => napi_set_named_property(env, exports, name.as_ptr(), function),
                failed => failed,
            }
        };
        if status != 0 {
            throw(
                env,
                &format!("the forebay addon cannot register (Node-API status {status})"),
            );
            break;
        }
    }
    exports
}

/// `mapPage(fd: number): ArrayBuffer`. The mapping lasts as long as the process.
unsafe extern "C" fn map_page(env: Env, info: CallbackInfo) -> Value {
    let Some(fd) = first_argument(env, info) else {
        return null_mut();
    };
    // SAFETY: all-zero bytes are a valid `stat`, which `fstat` overwrites.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is a live out-parameter; a bad descriptor is an error value.
    if unsafe { libc::fstat(fd, &raw mut status) } != 0 {
        return throw_errno(env, &format!("mapPage: descriptor {fd}"));
    }
    if usize::try_from(status.st_size).is_ok_and(|size| size < PAGE_BYTES) {
        let size = status.st_size;
        return throw(
            env,
            &format!("mapPage: descriptor {fd} has {size} bytes, the page {PAGE_BYTES}"),
        );
    }
    // SAFETY: a new shared mapping at an address of the kernel's choice touches no memory of ours.
    let page = unsafe {
        libc::mmap(
            null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return throw_errno(env, &format!("mapPage: mapping descriptor {fd}"));
    }
    let mut buffer = null_mut();
    // SAFETY: the mapping is PAGE_BYTES long and never unmapped, so it outlives the ArrayBuffer.
    let status =
        unsafe { napi_create_external_arraybuffer(env, page, PAGE_BYTES, None, null_mut(), &raw mut buffer) };
    if status != 0 {
        return throw(
            env,
            &format!("mapPage: this runtime refuses external memory (status {status})"),
        );
    }
    buffer
}

/// `ring(fd: number): void`. A full counter (EAGAIN) means that the bell is ringing already.
unsafe extern "C" fn ring(env: Env, info: CallbackInfo) -> Value {
    let Some(fd) = first_argument(env, info) else {
        return null_mut();
    };
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `one` is eight readable bytes.
    if unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::WouldBlock {
            return throw(env, &format!("ring: descriptor {fd}: {error}"));
        }
    }
    null_mut()
}

/// The call's first argument as an integer, or an exception in JavaScript.
fn first_argument(env: Env, info: CallbackInfo) -> Option<i32> {
    let mut argument = null_mut();
    let mut count = 1;
    let mut number = 0;
    // SAFETY: `env` and `info` are those of the running call; the out-parameters live; a missing argument
    // is filled in as `undefined`, which the second function refuses.
    let status = unsafe {
        match napi_get_cb_info(
            env,
            info,
            &raw mut count,
            &raw mut argument,
            null_mut(),
            null_mut(),
        ) {
            0 => napi_get_value_int32(env, argument, &raw mut number),
            failed => failed,
        }
    };
    if status == 0 {
        return Some(number);
    }
    throw(env, "the argument must be a file descriptor (a number)");
    None
}

fn throw_errno(env: Env, what: &str) -> Value {
    throw(env, &format!("{what}: {}", std::io::Error::last_os_error()))
}

/// Raises an `Error` in JavaScript once the running callback returns; gives the value to return.
fn throw(env: Env, message: &str) -> Value {
    let message = CString::new(message).unwrap_or_default();
    // SAFETY: `env` is that of the running call and `message` a C string.
    unsafe { napi_throw_error(env, null(), message.as_ptr()) };
    null_mut()
}
