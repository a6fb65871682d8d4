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

    cdef bint advance(self)
    cdef bint next_header(self)
    cdef bint skip_headers(self)
    cdef long long length(self, Py_ssize_t end)
    cdef long long varint(self, int bytes_max)
    cdef long long long_varint(self, int bytes_max)
    cdef object problem(self, str what)


cdef unsigned char* address(object buffer)
