"""Builds the compiled codec from the same files that run interpreted.

`records/NAME.py` becomes the extension `penstock.records._NAME`; where another of them calls it in
C, `_NAME.pxd` says how. They are optional: without a C compiler the package installs all the same
and the files run as they are.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

RECORDS = "src/penstock/records"

extensions = [
    Extension(
        f"penstock.records._{name}",
        [f"{RECORDS}/{name}.py"],
        depends=[f"{RECORDS}/_cursor.pxd", f"{RECORDS}/_builder.pxd"],
        optional=True,
    )
    for name in ("cursor", "codec", "builder", "column_decoder", "column_encoder", "selection")
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
