"""Builds the compiled codec from the same files that run interpreted.

`records/codec.py` becomes the extension `penstock.records._codec` and `records/builder.py`
`penstock.records._builder`. They are optional: without a C compiler the package installs all the
same and the files run as they are.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

extensions = [
    Extension(f"penstock.records._{name}", [f"src/penstock/records/{name}.py"], optional=True)
    for name in ("codec", "builder")
]

setup(
    ext_modules=cythonize(
        extensions,
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
