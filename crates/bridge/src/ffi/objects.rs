//! Dictionaries, strings, bytes and calls, without the price of generality.

use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use pyo3::{Borrowed, ffi};

use super::calls;
use super::gil::outside;

/// A copy of a dictionary: for one without holes this is a copy of its table.
#[inline]
pub fn copy_dict<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: `dict` is a dictionary; the result is a new one, or null with an exception set.
    unsafe {
        Bound::from_owned_ptr_or_err(dict.py(), ffi::PyDict_Copy(dict.as_ptr()))
            .map(|copy| copy.cast_into_unchecked())
    }
}

/// Sets one key.
#[inline]
pub fn set_item<V>(
    dict: &Bound<'_, PyDict>,
    key: &Bound<'_, PyString>,
    value: &Bound<'_, V>,
) -> PyResult<()> {
    // SAFETY: three live objects, the first a dictionary; the call takes references of its own.
    match unsafe { ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(dict.py())),
    }
}

/// A string of the code points 0..=255 that the bytes are (PEP 3333, "Unicode Issues").
#[inline]
pub fn latin1<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: the pointer and the length are those of a slice; the result is a new string, or
    // null with an exception set. A slice is never longer than isize::MAX.
    unsafe {
        let made = ffi::PyUnicode_DecodeLatin1(
            bytes.as_ptr().cast(),
            bytes.len() as ffi::Py_ssize_t,
            std::ptr::null(),
        );
        Bound::from_owned_ptr_or_err(py, made).map(|made| made.cast_into_unchecked())
    }
}

/// A string of as many ASCII letters.
///
/// # Errors
/// Python's: memory. Letters that are not ASCII are a fault of the caller's, and a panic.
#[inline]
pub fn ascii<'py, const LETTERS: usize>(
    py: Python<'py>,
    letters: &[u8; LETTERS],
) -> PyResult<Bound<'py, PyString>> {
    // All at once, which is less than to look at each.
    let together = letters.iter().fold(0, |together, letter| together | letter);
    assert!(together < 128, "a string was said to have no others");
    // SAFETY: a new string, which nobody else has yet, or null with an exception set. One whose largest code point is 127
    // has a byte for each, and was made for that many; what is copied there has none beyond it.
    unsafe {
        let made = ffi::PyUnicode_New(LETTERS as ffi::Py_ssize_t, 127);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let room = ffi::PyUnicode_1BYTE_DATA(made.as_ptr());
        std::ptr::copy_nonoverlapping(letters.as_ptr(), room, LETTERS);
        Ok(made.cast_into_unchecked())
    }
}

/// The bytes of a string that has one for each character, which are latin-1; none for others. Such a string has no other
/// form: where a byte is enough, the interpreter makes it so.
#[inline]
pub fn one_byte_text<'a>(text: Borrowed<'a, '_, PyAny>) -> Option<&'a [u8]> {
    let text = text.as_ptr();
    // SAFETY: a live object, a string where more than its type is read, and a ready one where that is asked; the bytes live
    // as long as it does, and never change.
    unsafe {
        let has_bytes = ffi::PyUnicode_Check(text) != 0
            && ffi::PyUnicode_IS_READY(text) != 0
            && ffi::PyUnicode_KIND(text) == ffi::PyUnicode_1BYTE_KIND;
        has_bytes.then(|| {
            let size = ffi::PyUnicode_GET_LENGTH(text) as usize;
            std::slice::from_raw_parts(ffi::PyUnicode_1BYTE_DATA(text), size)
        })
    }
}

/// Hands the latin-1 bytes of a string to `look`. Not a string, or a character beyond U+00FF:
/// an exception that says what it is.
#[inline]
pub fn text_bytes<R>(
    text: Borrowed<'_, '_, PyAny>,
    what: &str,
    look: impl FnOnce(&[u8]) -> R,
) -> PyResult<R> {
    match one_byte_text(text) {
        Some(bytes) => Ok(look(bytes)),
        None => Ok(look(encoded(text, what)?.as_bytes())),
    }
}

/// The latin-1 bytes of what has no such form, or is no string.
#[cold]
fn encoded<'py>(text: Borrowed<'_, 'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: a live object; the check reads its type.
    if unsafe { ffi::PyUnicode_Check(text.as_ptr()) } == 0 {
        let kind = text.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{what} must be a str, not {kind}")));
    }
    // SAFETY: a live string; the result is new bytes, or null with an exception set.
    unsafe {
        Bound::from_owned_ptr_or_err(text.py(), ffi::PyUnicode_AsLatin1String(text.as_ptr()))
            .map(|made| made.cast_into_unchecked())
    }
}

/// Calls with two positional arguments.
#[inline]
pub fn call_two<'py>(
    callable: &Bound<'py, PyAny>,
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // The empty place in front is what PY_VECTORCALL_ARGUMENTS_OFFSET promises: a bound
    // method puts its `self` there instead of copying the arguments.
    let mut arguments = [std::ptr::null_mut(), first.as_ptr(), second.as_ptr()];
    // SAFETY: live objects, two of them behind the place that the offset flag offers.
    unsafe {
        let count = 2 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let result = calls::call(callable.as_ptr(), arguments.as_mut_ptr().add(1), count);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// Calls without arguments.
pub fn call_none<'py>(callable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut place: [*mut ffi::PyObject; 1] = [std::ptr::null_mut()];
    // SAFETY: a live object, and no argument behind the place that the offset flag offers.
    unsafe {
        let count = ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let result = calls::call(callable.as_ptr(), place.as_mut_ptr().add(1), count);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// The bytes of a bytes object (or of a subclass); none for anything else.
#[inline]
pub fn bytes_of<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    object.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes())
}

/// The one item of a list or tuple of exactly one item; none for anything else.
#[inline]
pub fn first_bytes<'py>(result: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: type checks on a live object; the item is borrowed from a container that lives
    // and is not changed before a reference of our own is taken.
    unsafe {
        let object = result.as_ptr();
        let item = if ffi::PyList_CheckExact(object) != 0 && ffi::PyList_Size(object) == 1 {
            ffi::PyList_GetItem(object, 0)
        } else if ffi::PyTuple_CheckExact(object) != 0 && ffi::PyTuple_Size(object) == 1 {
            ffi::PyTuple_GetItem(object, 0)
        } else {
            return None;
        };
        Bound::from_borrowed_ptr_or_opt(result.py(), item)
    }
}

/// What an iterator gave.
pub enum Iteration<'py> {
    Item(Bound<'py, PyAny>),
    End,
}

/// The next item of an iterator.
#[inline]
pub fn iterate<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Iteration<'py>> {
    // SAFETY: `iterator` came from `PyObject_GetIter`; null means the end or an exception.
    let item = unsafe { Bound::from_owned_ptr_or_opt(iterator.py(), calls::next(iterator.as_ptr())) };
    match item {
        Some(item) => Ok(Iteration::Item(item)),
        None => match PyErr::take(iterator.py()) {
            Some(error) => Err(error),
            None => Ok(Iteration::End),
        },
    }
}

/// So much is read into new bytes at once: it is in a processor's cache when it is copied there.
const PIECE: usize = 128 * 1024;

/// New bytes: `first`, and at most `more` that `read` brings outside the interpreter, a piece
/// at a time until it brings nothing.
///
/// # Errors
/// What reading raises, as OSError.
pub fn bytes_filled<'py>(
    py: Python<'py>,
    first: &[u8],
    more: usize,
    read: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = ffi::Py_ssize_t::try_from(first.len() + more)?;
    // SAFETY: null asks for bytes that somebody will set; the result is a new object of that
    // size, or null with an exception set.
    let bytes: Bound<'py, PyBytes> = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))?
            .cast_into_unchecked()
    };
    // SAFETY: a live bytes object with room for both; nobody else knows it before it is returned,
    // so that its memory may be written without the interpreter.
    let filled = unsafe {
        let start = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
        std::ptr::copy_nonoverlapping(first.as_ptr(), start, first.len());
        outside(|_| fill(start.add(first.len()), more, read))
    }
    .map_err(PyOSError::new_err)?;
    if filled == more {
        return Ok(bytes);
    }
    // SAFETY: so many were set, by the two lines above.
    let set = unsafe { std::slice::from_raw_parts(bytes.as_bytes().as_ptr(), first.len() + filled) };
    Ok(PyBytes::new(py, set))
}

/// Fills memory by reading. How much was read.
///
/// # Safety
/// `start` is the start of `size` bytes that nobody else reads or writes.
unsafe fn fill(
    start: *mut u8,
    size: usize,
    mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
) -> std::io::Result<usize> {
    let mut at = 0;
    while at < size {
        let most = PIECE.min(size - at);
        // SAFETY: within the memory that the caller vouches for; set before it is lent.
        let room = unsafe {
            start.add(at).write_bytes(0, most);
            std::slice::from_raw_parts_mut(start.add(at), most)
        };
        match read(room) {
            Ok(0) => break,
            Ok(got) => at += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// How many references to an object there are.
#[inline]
pub fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: reads the count of a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) as isize }
}

/// The exception that an `exc_info` triple holds, with its traceback, to be raised again.
pub fn restore_exception(exc_info: &Bound<'_, PyAny>) -> PyErr {
    match exc_info.get_item(1) {
        Ok(value) if !value.is_none() => PyErr::from_value(value),
        _ => PyTypeError::new_err("exc_info must be a triple as of sys.exc_info()"),
    }
}

/// A body from this size on is sent from the application's own object, so that a slow reader holds neither a
/// copy nor the thread.
pub const KEEP_BYTES: usize = 64 * 1024;

/// Bytes of the application, kept alive while the engine sends them.
pub struct KeptBytes(Py<PyBytes>);

impl KeptBytes {
    /// As the engine takes them.
    pub fn boxed(bytes: &Bound<'_, PyBytes>) -> Box<Self> {
        Box::new(Self(bytes.clone().unbind()))
    }
}

impl AsRef<[u8]> for KeptBytes {
    /// Read by threads without the interpreter: bytes objects never change, and reading one touches no
    /// reference count.
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a live bytes object, by the type; the pointer and size are fields that are set
        // once when it is made.
        unsafe {
            let start = ffi::PyBytes_AsString(self.0.as_ptr()).cast::<u8>();
            std::slice::from_raw_parts(start, ffi::PyBytes_Size(self.0.as_ptr()) as usize)
        }
    }
}
