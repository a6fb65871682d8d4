"""The errors of delivery by the name that their module had: they are in `model.errors`.

Not for new code. The invariant: nothing is defined here.
"""

from __future__ import annotations

from penstock.model.errors import ReservedProducerId as ReservedProducerId
from penstock.model.errors.delivery import *  # noqa: F403
