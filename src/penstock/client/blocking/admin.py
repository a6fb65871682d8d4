"""What can be looked at and changed through a client, for code without an event loop.

See `client.admin`, which decides everything. The invariant: a call has ended when it returns.
"""

from __future__ import annotations

from penstock.client.admin.clients import ClientAdmin
from penstock.client.admin.cluster import ClusterAdmin
from penstock.client.admin.dead_letters import DeadLetters
from penstock.client.admin.delayed import Delayed
from penstock.client.admin.groups import GroupAdmin
from penstock.client.admin.schedules import Schedules
from penstock.client.admin.topics import Admin
from penstock.client.blocking.facade import Facade, iterates, waits


class BlockingAdmin(Facade[Admin]):
    """See `Admin`."""

    create_topic = waits(Admin.create_topic)
    delete_topic = waits(Admin.delete_topic)
    describe_topic = waits(Admin.describe_topic)
    alter_topic = waits(Admin.alter_topic)
    add_partitions = waits(Admin.add_partitions)
    list_topics = waits(Admin.list_topics)
    find_offset = waits(Admin.find_offset)
    list_groups = waits(Admin.list_groups)
    group_offsets = waits(Admin.group_offsets)
    commit_offsets = waits(Admin.commit_offsets)
    group_lag = waits(Admin.group_lag)
    topic_groups = waits(Admin.topic_groups)
    removals = waits(Admin.removals)
    deleted_topics = waits(Admin.deleted_topics)


class BlockingGroupAdmin(Facade[GroupAdmin]):
    """See `GroupAdmin`."""

    describe_all = waits(GroupAdmin.describe_all)
    describe_those = waits(GroupAdmin.describe_those)
    describe = waits(GroupAdmin.describe)
    delete = waits(GroupAdmin.delete)
    move = waits(GroupAdmin.move)
    settings = waits(GroupAdmin.settings)
    configure = waits(GroupAdmin.configure)
    subscriptions = waits(GroupAdmin.subscriptions)


class BlockingClientAdmin(Facade[ClientAdmin]):
    """See `ClientAdmin`."""

    list = waits(ClientAdmin.list)
    park = waits(ClientAdmin.park)
    resume = waits(ClientAdmin.resume)


class BlockingClusterAdmin(Facade[ClusterAdmin]):
    """See `ClusterAdmin`."""

    status = waits(ClusterAdmin.status)
    move = waits(ClusterAdmin.move)
    replicate = waits(ClusterAdmin.replicate)
    drain = waits(ClusterAdmin.drain)
    add = waits(ClusterAdmin.add)
    rebalance = waits(ClusterAdmin.rebalance)
    elect_leaders = waits(ClusterAdmin.elect_leaders)


class BlockingDeadLetters(Facade[DeadLetters]):
    """See `DeadLetters`. `on_outcome` is called in the client's own thread."""

    groups = waits(DeadLetters.groups)
    list = iterates(DeadLetters.list)
    show = waits(DeadLetters.show)
    redrive = waits(DeadLetters.redrive)
    drop = waits(DeadLetters.drop)


class BlockingDelayed(Facade[Delayed]):
    """See `Delayed`."""

    publish_many = waits(Delayed.publish_many)
    cancel = waits(Delayed.cancel)
    describe = waits(Delayed.describe)


class BlockingSchedules(Facade[Schedules]):
    """See `Schedules`."""

    put = waits(Schedules.put)
    list = waits(Schedules.list)
    delete = waits(Schedules.delete)
