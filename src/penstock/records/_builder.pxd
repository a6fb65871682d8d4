# The C face of records/builder.py, compiled to `_builder`, for what is compiled with it.

cimport cython


@cython.final
cdef class BatchBuilder:
    cdef long long _bytes_max
    cdef int _codec
    cdef bytearray _buffer
    cdef unsigned char* _data
    cdef long long _capacity
    cdef long long _position
    cdef long long _record_count
    cdef long long _base_timestamp_ms
    cdef long long _max_timestamp_ms

    cdef long long put_record(
        self,
        long long timestamp,
        unsigned char* key,
        long long key_length,
        unsigned char* value,
        long long value_length,
        unsigned char* headers,
        long long headers_length,
    )
    cdef void _grow(self, long long size)


cdef long long hash_key(unsigned char* data, Py_ssize_t length)
cdef long long varint_size(long long value)
cdef Py_ssize_t put_varint(unsigned char* data, Py_ssize_t position, long long value)
cdef Py_ssize_t put_field(
    unsigned char* data, Py_ssize_t position, unsigned char* field, long long length
)
cdef Py_ssize_t put_bytes(
    unsigned char* data, Py_ssize_t position, unsigned char* field, long long length
)
