"""What follows from a loss: the query ends with an error that explains it, or goes on and says so.

Spark's option `failOnDataLoss` decides. The invariant: no loss goes by in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.model.ids import TopicPartition
from penstock.spark.errors import DataLoss
from penstock.spark.planning.loss import Facts, Loss, explain, summary

logger = logging.getLogger(__name__)

OTHER_CHECKPOINT = "or with a new checkpoint"
OTHER_START = "or with other startingOffsets"


def settle(
    losses: Sequence[Loss], facts: Facts, *, fail: bool, otherwise: str
) -> dict[TopicPartition, int]:
    """Raise DataLoss if messages were lost and that is to be an error; else warn of each.

    Gives how many offsets of each partition are gone unread, as far as anybody knows.
    otherwise: what else can be done than to go on without them.
    """
    explained = [explain(loss, facts) for loss in losses]
    # A topic that was read to its end and then deleted has lost nothing.
    missed = [each for each in explained if each.count != 0]
    if fail and missed:
        resumed = missed[0].loss.resumed_at if len(missed) == 1 else None
        where = "with what is there" if resumed is None else f"at offset {resumed}"
        raise DataLoss(
            f"{summary(missed)} Start the query with failOnDataLoss=false to go on {where}, "
            f"{otherwise}."
        )
    lost: dict[TopicPartition, int] = {}
    for each in explained:
        logger.warning("The query goes on after a loss. %s", each.sentence)
        if each.count and not each.loss.was_read:
            lost[each.loss.partition] = lost.get(each.loss.partition, 0) + each.count
    return lost
