# The C face of records/cursor.py, compiled to `_cursor`, for the modules that are compiled with it.

cimport cython


@cython.final
cdef class Cursor:
    cdef object header
    cdef long long base_offset
    cdef long long last_offset_delta
    cdef long long base_timestamp_ms
    cdef long long append_timestamp_ms
    cdef bint is_append_time
    cdef object owner
    cdef unsigned char* data
    cdef Py_ssize_t position
    cdef Py_ssize_t end
    cdef long long records_left
    cdef long long headers_max
    cdef Py_ssize_t record_end
    cdef long long offset_delta
    cdef long long offset
    cdef long long timestamp_ms
    cdef Py_ssize_t key_position
    cdef long long key_length
    cdef Py_ssize_t value_position
    cdef long long value_length
    cdef long long headers_left
    cdef Py_ssize_t name_position
    cdef long long name_length
    cdef Py_ssize_t content_position
    cdef long long content_length

    # What they return instead of an error is nothing that they return without one, or is seldom it.
    cdef bint advance(self) except -1 nogil
    cdef bint next_header(self) except -1 nogil
    cdef bint skip_headers(self) except -1 nogil
    cdef long long length(self, Py_ssize_t end) except -2 nogil
    cdef long long varint(self, int bytes_max) except? -4611686018427387905 nogil
    cdef long long long_varint(self, int bytes_max) except? -4611686018427387905 nogil
    cdef object problem(self, str what)


cdef unsigned char* address(object buffer)
