"""What topics get that do not say it themselves: as the broker was configured, changed while
brokers ran for all of them, and for this one.

Data, made anew when one of the three has changed. The invariant: what is of one broker goes before
what is of all, and both before the configuration (KIP-226).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.model.topic_config import TopicConfig, with_settings
from penstock.registry.image import EVERY_BROKER, BrokerSettings

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The three, and what follows from them."""

    configured: TopicConfig
    everywhere: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    here: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    effective: TopicConfig = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "effective", with_settings(self.below_here, self.here))

    @property
    def below_here(self) -> TopicConfig:
        """What holds where nothing is said for this broker alone."""
        return with_settings(self.configured, self.everywhere)


def topic_defaults(configured: TopicConfig, broker: int, settings: BrokerSettings) -> TopicDefaults:
    """Those of a broker, of what the registry has."""
    return TopicDefaults(
        configured, settings.get(EVERY_BROKER, _NOTHING), settings.get(str(broker), _NOTHING)
    )
