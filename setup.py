"""Builds the compiled codec from the same file that runs interpreted.

`records/codec.py` becomes the extension `penstock.records._codec`. It is optional: without a C
compiler the package installs all the same and `codec.py` runs as it is.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

codec = Extension("penstock.records._codec", ["src/penstock/records/codec.py"], optional=True)

setup(
    ext_modules=cythonize(
        [codec],
        build_dir="build/cython",
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
        },
    )
)
